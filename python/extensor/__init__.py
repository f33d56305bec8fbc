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
from ._autograd import detect_anomaly, enable_grad, gradient_eps, no_grad, set_grad_enabled
from ._core import *
from ._core import __version__
from ._types import (
    Device,
    DeviceError,
    DType,
    DTypeError,
    Error,
    FormatError,
    IndexError,
    IoError,
    OutOfMemoryError,
    ShapeError,
    ValueError,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

newaxis = None
e = 2.718281828459045
inf = float("inf")
nan = float("nan")
pi = 3.141592653589793

# Imported when first used, so that `import extensor` stays fast.
_SUBMODULES = ("autograd", "data", "models", "nn", "optim", "train")

if TYPE_CHECKING:
    from . import autograd, data, models, nn, optim, train

del _tensor


def __getattr__(name: str) -> _python_types.ModuleType:
    if name in _SUBMODULES:
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'extensor' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES})
