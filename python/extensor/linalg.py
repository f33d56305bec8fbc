"""Linear algebra: factorizations, solutions, determinants and norms, batched over leading axes."""

from . import _core
from ._core import matmul as matmul
from ._core import matrix_transpose as matrix_transpose
from ._core import outer as outer
from ._core import tensordot as tensordot
from ._core import vecdot as vecdot
from ._core._linalg import *

__all__ = [_name for _name in vars(_core._linalg) if not _name.startswith("_")]
__all__ += ["matmul", "matrix_transpose", "outer", "tensordot", "vecdot"]
