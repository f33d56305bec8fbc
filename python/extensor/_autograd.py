"""Modes of the thread (gradients, mixed precision, profiles) as context managers and decorators."""

from __future__ import annotations

import functools
import os
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from . import _core
from ._core import Tensor
from ._types import Device, ValueError

if TYPE_CHECKING:
    from ._core import DTypeLike

_F = TypeVar("_F", bound=Callable[..., Any])


class _Mode:
    """Holds a mode of this thread between __enter__ and __exit__; may be nested and reused."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._active: list[Any] = []

    def __enter__(self) -> None:
        self._active.append(self._make())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._active.pop()  # its destructor restores the previous mode

    def __call__(self, function: _F) -> _F:
        @functools.wraps(function)
        def wrapped(*arguments: Any, **options: Any) -> Any:
            with _Mode(self._make):
                return function(*arguments, **options)

        return wrapped  # type: ignore[return-value]


class no_grad(_Mode):
    """Disables recording: ``with no_grad():`` or ``@no_grad()``."""

    def __init__(self) -> None:
        super().__init__(lambda: _core._GradMode(False))


class enable_grad(_Mode):
    """Enables recording inside ``no_grad()``."""

    def __init__(self) -> None:
        super().__init__(lambda: _core._GradMode(True))


class set_grad_enabled(_Mode):
    """Enables or disables recording."""

    def __init__(self, enabled: bool) -> None:
        super().__init__(lambda: _core._GradMode(enabled))


class detect_anomaly(_Mode):
    """Raises ValueError for the first NaN in a result or gradient, and names the op."""

    def __init__(self) -> None:
        super().__init__(lambda: _core._AnomalyMode(True))


class gradient_eps(_Mode):
    """Sets the eps of singular gradients (of divide, log, sqrt …); 0 follows IEEE."""

    def __init__(self, eps: float) -> None:
        super().__init__(lambda: _core._GradientEps(eps))


class Autocast(_Mode):
    """Computes matrix products and convolutions in a half-precision dtype, and keeps everything else.

    ``with Autocast():`` for bfloat16; with float16, use an ``optim.GradScaler`` too.
    """

    def __init__(self, dtype: DTypeLike = "bfloat16", enabled: bool = True) -> None:
        _core._Autocast(dtype, enabled)  # refuses another dtype here, not where it is entered
        super().__init__(lambda: _core._Autocast(dtype, enabled))


class AllowTF32(_Mode):
    """Lets products of float32 on a CUDA device round their operands to TF32."""

    def __init__(self, enabled: bool = True) -> None:
        super().__init__(lambda: _core._AllowTF32(enabled))


class DefaultDevice(_Mode):
    """Sets the device of tensors that are created without one."""

    def __init__(self, device: Device | str) -> None:
        super().__init__(lambda: _core._DefaultDevice(device))


class profile:
    """Measures the ops that a part of a program calls: ``with profile(trace="step.json"):``.

    At the end it prints a table to standard error and writes the trace, if there is a path.
    """

    def __init__(self, print: bool = True, trace: str | os.PathLike[str] | None = None) -> None:
        self._options: dict[str, Any] = {"print": print}
        if trace is not None:
            self._options["trace"] = trace
        self._profile: Any = None

    def __enter__(self) -> profile:
        self._profile = _core._make_profile(**self._options)
        return self

    def __exit__(self, *error: Any) -> None:
        self._profile.stop()

    def _started(self) -> Any:
        if self._profile is None:
            raise ValueError("profile: it has not begun (allowed: with profile() as p)")
        return self._profile

    def ops(self) -> list[dict[str, Any]]:
        """The measurements of each op, the slowest first."""
        rows: list[dict[str, Any]] = self._started().ops()
        return rows

    def seconds(self) -> float:
        seconds: float = self._started().seconds()
        return seconds

    def table(self) -> str:
        text: str = self._started().table()
        return text


class HookHandle:
    """Removes a hook: ``handle.remove()``, or at the end of ``with handle:``."""

    def __init__(self, remove: Callable[[], Any]) -> None:
        self._remove: Callable[[], Any] | None = remove

    def remove(self) -> None:
        if self._remove is not None:
            self._remove()
            self._remove = None

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()


def _register_hook(self: Tensor, hook: Callable[[Tensor], Any]) -> HookHandle:
    """Calls the function with this tensor's gradient before it is passed on; it may return another."""
    number = self._register_hook(hook)
    return HookHandle(lambda: self._remove_hook(number))


setattr(Tensor, "register_hook", _register_hook)
