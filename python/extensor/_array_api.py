"""Functions of the Python Array API whose arguments differ from those of C++: any number of arrays,
bounds of mixed types, options with other meanings. Each calls the bound function of its name."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, Sequence

from . import _core
from ._core import Tensor
from ._types import Device, DType, ValueError, bool_, complex64, dtypes, float32, int64

if TYPE_CHECKING:
    from ._core import DTypeLike, TensorLike

# The version of the standard that the namespace follows.
VERSION = "2024.12"
_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


def _is_number(value: Any) -> bool:
    return isinstance(value, (builtins.bool, int, float, complex))


def _tensors(name: str, arrays: tuple[Any, ...]) -> Sequence[TensorLike]:
    """The arguments, or the elements of a list that is the only one."""
    if len(arrays) == 1 and isinstance(arrays[0], (list, tuple)):
        return arrays[0]
    for position, array in enumerate(arrays):
        if array is None:
            raise TypeError(f"{name}: argument {position + 1} is None (accepted: a Tensor or an array)")
    return arrays


# ---- data types


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype of an operation on tensors, dtypes and numbers. Numbers are weak, as in x + 1."""
    return _core._result_type(arrays_and_dtypes)


def isdtype(dtype: DTypeLike, kind: DTypeLike | str | tuple[DTypeLike | str, ...]) -> builtins.bool:
    """Whether a dtype is another one, of a kind such as 'integral', or one of several of these.

    Kinds: 'bool', 'signed integer', 'unsigned integer', 'integral', 'real floating',
    'complex floating', 'numeric'.
    """
    if isinstance(kind, tuple):
        return any([isdtype(dtype, each) for each in kind])
    if isinstance(kind, str):
        return _core._isdtype(dtype, kind)
    return _core._isdtype(dtype, other=kind)


def astype(
    x: TensorLike, dtype: DTypeLike, /, *, copy: builtins.bool = True, device: Device | str | None = None
) -> Tensor:
    """A copy with another dtype. With copy=False, x itself if it has the dtype and device."""
    result: Tensor = _core.asarray(x) if device is None else _core.asarray(x).to(device)
    return result.astype(dtype, copy=copy)


# ---- creation


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: DTypeLike | None = None,
    device: Device | str | None = None,
) -> Tensor:
    """start, start + step, … below stop, or from 0 below `start` if it is alone. int64 when all are
    integers, float32 otherwise."""
    if stop is None:
        start, stop = 0, start
    return _core._arange(start, stop, step, dtype=dtype, device=device)


# ---- shapes


def broadcast_arrays(*arrays: TensorLike) -> list[Tensor]:
    """Views of one shape, to which the shapes of all broadcast."""
    return list(_core._broadcast_arrays(list(_tensors("broadcast_arrays", arrays))))


def meshgrid(*arrays: TensorLike, indexing: str = "xy", xy_indexing: builtins.bool | None = None) -> list[Tensor]:
    """The coordinates of a grid: one tensor for each vector. With indexing='xy' the first two axes
    are swapped, with 'ij' they are in the order of the vectors."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: argument 'indexing' is {indexing!r} (allowed: 'xy', 'ij')")
    if xy_indexing is None:
        xy_indexing = indexing == "xy"
    return list(_core._meshgrid(list(_tensors("meshgrid", arrays)), xy_indexing))


def einsum(subscripts: str, *operands: TensorLike | Sequence[TensorLike]) -> Tensor:
    """The sum of products that the subscripts describe, as in "ij,jk->ik". The operands are arguments or one list."""
    return _core._einsum(subscripts, list(_tensors("einsum", operands)))


def concat(arrays: Sequence[TensorLike], axis: int | None = 0) -> Tensor:
    """Joins along an existing axis, or with axis=None the arrays flattened. Dtypes promote."""
    if axis is None:
        return _core._concat([_core.flatten(x) for x in arrays], 0)
    return _core._concat(arrays, axis)


def reshape(x: TensorLike, shape: int | Sequence[int], *, copy: builtins.bool | None = None) -> Tensor:
    """Another shape; a view where strides allow it, else a copy. One −1 is allowed.

    copy=True always copies; copy=False raises ValueError where a view is impossible.
    """
    if copy is None:
        return _core._reshape(x, shape)
    x = _core.asarray(x)
    if copy:
        return _core._reshape(x.clone(), shape)
    result = _core._reshape(x, shape)
    if not _share_memory(x, result):
        raise ValueError("reshape: copy=False, but this shape requires a copy")
    return result


def _share_memory(a: Tensor, b: Tensor) -> builtins.bool:
    return a.size == 0 or a._address == b._address


# ---- elements


def nonzero(x: TensorLike) -> tuple[Tensor, ...]:
    """The positions of the elements that are not 0, in row-major order: one int64 tensor per axis."""
    x = _core.asarray(x)
    if x.ndim == 0:
        raise ValueError("nonzero: x has no dimensions (needed: 1 at least)")
    return _core._nonzero(x)


def bitwise_left_shift(a: TensorLike, b: TensorLike) -> Tensor:
    """a << b, for integers. A shift by their width or more leaves 0."""
    return a << b if isinstance(a, Tensor) or isinstance(b, Tensor) else _core.asarray(a) << b


def bitwise_right_shift(a: TensorLike, b: TensorLike) -> Tensor:
    """a >> b, for integers. A shift by their width or more leaves 0, or −1 of a negative number."""
    return a >> b if isinstance(a, Tensor) or isinstance(b, Tensor) else _core.asarray(a) >> b


def clip(x: TensorLike, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """min where x is below, max where it is above, else x. Bounds are numbers or broadcast against x."""
    if min is None and max is None:
        return _core.asarray(x, copy=True)
    if (min is None or _is_number(min)) and (max is None or _is_number(max)):
        return _core._clip(x, min=min, max=max)
    x = _core.asarray(x)
    # A number among tensors takes the dtype of x, as in x + 1.
    low, high = (
        _core.full((), bound, dtype=result_type(x, bound), device=x.device) if bound is not None and _is_number(bound) else bound
        for bound in (min, max)
    )
    if low is None:
        # The dtype of the result: the smallest number of a narrower one would be a bound.
        dtype = result_type(x, _core.asarray(high))
        low = _core.full((), _lowest(dtype), dtype=dtype, device=x.device)
    return _core._clip(x, low, high)


def _lowest(dtype: DType) -> float | int:
    if dtype.kind == "f":
        return float("-inf")
    return False if dtype is bool_ else _core.iinfo(dtype).min


def searchsorted(
    sorted: TensorLike,
    values: TensorLike,
    right: builtins.bool | None = None,
    *,
    side: str = "left",
    sorter: TensorLike | None = None,
) -> Tensor:
    """The positions (int64) at which to insert each value into an ascending row to keep it
    ascending: before equal elements, or after them with side='right'. With a sorter, the row is
    sorted[sorter]. Its leading dimensions, if any, are those of `values`."""
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: argument 'side' is {side!r} (allowed: 'left', 'right')")
    right = side == "right" if right is None else right
    if sorter is None:
        return _core._searchsorted(sorted, values, right)
    return _core._searchsorted(sorted, values, right, sorter)


def tensordot(
    a: TensorLike,
    b: TensorLike,
    *positional: Any,
    axes: int | tuple[Sequence[int], Sequence[int]] = 2,
    **pairs: Sequence[int],
) -> Tensor:
    """Sums over the last `axes` axes of a and the first of b, or over pairs of axes: one sequence
    for a, one for b."""
    if len(positional) == 1:
        (axes,) = positional
    elif positional or pairs:
        return _core._tensordot(a, b, *positional, **pairs)
    if isinstance(axes, (tuple, list)):
        if len(axes) != 2:
            raise ValueError(
                f"tensordot: argument 'axes' has {len(axes)} elements (allowed: an int, or the axes of a "
                "and those of b)"
            )
        return _core._tensordot(a, b, axes[0], axes[1])
    return _core._tensordot(a, b, axes)


# ---- the namespace itself


class _NamespaceInfo:
    """What the library supports, as the Python Array API asks for it."""

    def capabilities(self) -> dict[str, Any]:
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        return _core.default_device()

    def devices(self) -> list[Device]:
        return [facts.device for facts in _core.devices()]

    def default_dtypes(self, *, device: Device | str | None = None) -> dict[str, DType]:
        return {"real floating": float32, "complex floating": complex64, "integral": int64, "indexing": int64}

    def dtypes(
        self, *, device: Device | str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        standard = [dtype for dtype in dtypes if dtype.name not in ("float16", "bfloat16")]
        return {dtype.name: dtype for dtype in standard if kind is None or isdtype(dtype, kind)}


def __array_namespace_info__() -> _NamespaceInfo:
    """The capabilities, devices and dtypes of the library."""
    return _NamespaceInfo()


def _array_namespace(self: Tensor, *, api_version: str | None = None) -> Any:
    """The module extensor, which has the functions of the Python Array API."""
    if api_version is not None and api_version not in _VERSIONS:
        allowed = ", ".join(repr(version) for version in _VERSIONS)
        raise ValueError(f"__array_namespace__: argument 'api_version' is {api_version!r} (allowed: {allowed})")
    import extensor

    return extensor


def _to_device(self: Tensor, device: Device | str, /, *, stream: Any = None) -> Tensor:
    """The tensor on another device, or itself if it is there."""
    if stream is not None:
        raise ValueError("to_device: argument 'stream' is not None (allowed: None)")
    return self.to(device)


def _complex(self: Tensor) -> complex:
    """The only element as a complex number."""
    return complex(self.item())


for _name, _function in {
    "__array_namespace__": _array_namespace,
    "__complex__": _complex,
    "to_device": _to_device,
}.items():
    _function.__name__ = _function.__qualname__ = _name
    setattr(Tensor, _name, _function)
