"""ExTensor: tensors, automatic differentiation and neural networks on fast CPU kernels.

>>> import extensor as ex
>>> x = ex.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([[2, 4],
        [6, 8]], dtype=float32)
"""

from __future__ import annotations

import importlib
import types as _python_types
from typing import TYPE_CHECKING

from . import _core, _tensor
from ._array_api import VERSION as __array_api_version__
from ._array_api import __array_namespace_info__ as __array_namespace_info__
from ._array_api import (
    arange as arange,
    astype as astype,
    bitwise_left_shift as bitwise_left_shift,
    bitwise_right_shift as bitwise_right_shift,
    broadcast_arrays as broadcast_arrays,
    clip as clip,
    concat as concat,
    einsum as einsum,
    isdtype as isdtype,
    meshgrid as meshgrid,
    nonzero as nonzero,
    reshape as reshape,
    result_type as result_type,
    searchsorted as searchsorted,
    tensordot as tensordot,
)
from ._autograd import AllowTF32 as AllowTF32
from ._autograd import Autocast as Autocast
from ._autograd import DefaultDevice as DefaultDevice
from ._autograd import detect_anomaly as detect_anomaly
from ._autograd import enable_grad as enable_grad
from ._autograd import gradient_eps as gradient_eps
from ._autograd import no_grad as no_grad
from ._autograd import profile as profile
from ._autograd import set_grad_enabled as set_grad_enabled
from ._core import *
from ._core import __version__ as __version__
from ._types import (
    Device as Device,
    DeviceError as DeviceError,
    DType as DType,
    DTypeError as DTypeError,
    DivergedError as DivergedError,
    Error as Error,
    FormatError as FormatError,
    IndexError as IndexError,
    IoError as IoError,
    OutOfMemoryError as OutOfMemoryError,
    ShapeError as ShapeError,
    ValueError as ValueError,
    bfloat16 as bfloat16,
    bool_ as bool_,
    complex64 as complex64,
    complex128 as complex128,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
)

bool = bool_
concatenate = concat
newaxis = None
e = 2.718281828459045
inf = float("inf")
nan = float("nan")
pi = 3.141592653589793

# Imported when first used, so that `import extensor` stays fast.
_SUBMODULES = ("autograd", "data", "fft", "linalg", "models", "nn", "onnx", "optim", "train")

if TYPE_CHECKING:
    from . import autograd as autograd
    from . import data as data
    from . import fft as fft
    from . import linalg as linalg
    from . import models as models
    from . import nn as nn
    from . import onnx as onnx
    from . import optim as optim
    from . import train as train

del _tensor


def __getattr__(name: str) -> _python_types.ModuleType:
    if name in _SUBMODULES:
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'extensor' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES})
