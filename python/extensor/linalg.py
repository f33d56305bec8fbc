"""Linear algebra: factorizations, solutions, determinants and norms, batched over leading axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _core
from ._array_api import tensordot as tensordot
from ._core import Tensor
from ._core import matmul as matmul
from ._core import matrix_transpose as matrix_transpose
from ._core import outer as outer
from ._core import vecdot as vecdot
from ._core._linalg import *

if TYPE_CHECKING:
    from ._core import DTypeLike, TensorLike

__all__ = [_name for _name in vars(_core._linalg) if not _name.startswith("_")]
__all__ += ["matmul", "matrix_transpose", "outer", "tensordot", "trace", "vecdot"]


def trace(x: TensorLike, offset: int = 0, *, dtype: DTypeLike | None = None) -> Tensor:
    """The sum of a diagonal. Integers and bool sum to int64, unsigned integers to uint64, all to
    `dtype` if it is given."""
    x = _core.asarray(x) if dtype is None else _core.asarray(x).astype(dtype)
    result = _core._linalg._trace(x, offset)
    return result if dtype is None else result.astype(dtype, copy=False)
