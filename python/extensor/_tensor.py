"""The members of Tensor that are written in Python: printing, NumPy, copies and pickling."""

from __future__ import annotations

import builtins
import html
import re
from typing import Any, Callable

from . import _core
from ._core import Tensor

_DEFAULT_DTYPES = ("float32", "int64", "bool")
_MOST_HTML_CELLS = 400


def _repr(self: Tensor) -> str:
    # A comma after each value that another one follows.
    text = re.sub(r"(?<=[^\s\[])(?=\s+[^\s\]])", ",", self._text()).replace("\n", "\n       ")
    parts = [text]
    if self.dtype.name not in _DEFAULT_DTYPES or self.dtype.name == "float32":
        parts.append(f"dtype={self.dtype.name}")
    if self.size == 0 and self.ndim != 1:
        parts.insert(1, f"shape={self.shape}")
    if self.device.type != "cpu":
        parts.append(f"device='{self.device}'")
    if self.requires_grad:
        parts.append("requires_grad=True")
    return f"tensor({', '.join(parts)})"


def _str(self: Tensor) -> str:
    return self._text()


def _format(self: Tensor, specification: str) -> str:
    if self.ndim == 0 and specification:
        return format(self.item(), specification)
    try:
        return format(str(self), specification)
    except builtins.ValueError:
        raise TypeError(
            f"format: '{specification}' is a format of numbers, and the tensor has the shape {self.shape} "
            "(allowed: formats of str; format the result of tolist() or item())"
        ) from None


def _repr_html(self: Tensor) -> str:
    """A table for a matrix of moderate size, else the text."""
    head = html.escape(f"Tensor {list(self.shape)} {self.dtype.name} on {self.device}")
    if self.ndim != 2 or not 0 < self.size <= _MOST_HTML_CELLS:
        return f"<div>{head}<pre>{html.escape(str(self))}</pre></div>"
    rows = "".join(
        "<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>"
        for row in self.tolist()
    )
    return f"<div>{head}<table>{rows}</table></div>"


def _cell(value: float) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _numpy(self: Tensor) -> Any:
    """A NumPy array on the same memory. A tensor on another device is copied to the CPU."""
    import numpy

    return numpy.asarray(memoryview(self.detach().cpu()))


def _array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    import numpy

    if copy is None:
        return numpy.asarray(self.numpy(), dtype=dtype)
    return numpy.array(self.numpy(), dtype=dtype, copy=copy)


def _rebuild(data: bytes, dtype: str, shape: tuple[int, ...], requires_grad: bool) -> Tensor:
    result = _core._from_bytes(data, dtype, shape)
    return result.requires_grad_() if requires_grad else result


def _rebuild_subclass(kind: type[Tensor], tensor: Tensor, state: dict[str, Any]) -> Tensor:
    result = kind(tensor)
    result.__dict__.update(state)
    return result


def _reduce(self: Tensor, protocol: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    arguments = (self._bytes(), self.dtype.name, self.shape, self.requires_grad)
    if type(self) is Tensor:
        return _rebuild, arguments
    return _rebuild_subclass, (type(self), _rebuild(*arguments), self.__dict__)


def _copy(self: Tensor) -> Tensor:
    return self.clone() if type(self) is Tensor else type(self)(self.clone())


def _deepcopy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    if not self.is_leaf:
        raise _core_value_error(
            "deepcopy: the tensor was computed from others (allowed: leaves); use clone() to keep "
            "its history or detach().clone() to drop it"
        )
    found = memo.get(id(self))
    if found is not None:
        return found
    result = self.detach().clone()
    if type(self) is not Tensor:
        result = type(self)(result)
    result.requires_grad_(self.requires_grad) if self.dtype.kind in "fc" else None
    memo[id(self)] = result
    return result


def _core_value_error(message: str) -> Exception:
    from ._types import ValueError

    return ValueError(message)


for _name, _function in {
    "__repr__": _repr,
    "__str__": _str,
    "__format__": _format,
    "_repr_html_": _repr_html,
    "numpy": _numpy,
    "__array__": _array,
    "__reduce_ex__": _reduce,
    "__copy__": _copy,
    "__deepcopy__": _deepcopy,
}.items():
    setattr(Tensor, _name, _function)
