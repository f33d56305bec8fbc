"""Modes of automatic differentiation, as context managers and decorators."""

from __future__ import annotations

import functools
from types import TracebackType
from typing import Any, Callable, TypeVar

from . import _core

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
