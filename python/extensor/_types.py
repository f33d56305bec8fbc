"""Exceptions, dtypes and devices: the Python classes that the extension module uses."""

from __future__ import annotations

import builtins


class Error(Exception):
    """The base class of ExTensor's exceptions. Each one is also a natural Python exception."""


class ShapeError(Error, builtins.ValueError):
    """Shapes that do not fit together, or a shape that cannot exist."""


class DTypeError(Error, builtins.TypeError):
    """A dtype for which the operation is not defined, or two without a common dtype."""


class IndexError(Error, builtins.IndexError):
    """An axis or an index out of range."""


class DeviceError(Error, builtins.RuntimeError):
    """Tensors on different devices, or a device that is not available."""


class ValueError(Error, builtins.ValueError):
    """An argument whose value is not allowed."""


class FormatError(Error, builtins.ValueError):
    """A file whose contents violate its format."""


class IoError(Error, builtins.OSError):
    """The operating system refused to read or write."""


class OutOfMemoryError(Error, builtins.MemoryError):
    """An allocation beyond the machine's memory or the configured limit."""


class DivergedError(Error, builtins.ArithmeticError):
    """A loss or a gradient that is not finite, in a trainer."""


class DType:
    """The type of a tensor's elements, such as ``extensor.float32``."""

    __slots__ = ("name", "itemsize", "kind")
    name: str
    itemsize: int
    kind: str

    def __init__(self, name: str, itemsize: int, kind: str) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "itemsize", itemsize)
        object.__setattr__(self, "kind", kind)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a DType is constant: cannot set {name}")

    def __repr__(self) -> str:
        return f"extensor.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        # The name of the constant in the module; pickle looks it up.
        return "bool_" if self.name == "bool" else self.name

    @property
    def is_floating_point(self) -> bool:
        return self.kind == "f"

    @property
    def is_complex(self) -> bool:
        return self.kind == "c"


bool_ = DType("bool", 1, "b")
int8 = DType("int8", 1, "i")
int16 = DType("int16", 2, "i")
int32 = DType("int32", 4, "i")
int64 = DType("int64", 8, "i")
uint8 = DType("uint8", 1, "u")
uint16 = DType("uint16", 2, "u")
uint32 = DType("uint32", 4, "u")
uint64 = DType("uint64", 8, "u")
float16 = DType("float16", 2, "f")
bfloat16 = DType("bfloat16", 2, "f")
float32 = DType("float32", 4, "f")
float64 = DType("float64", 8, "f")
complex64 = DType("complex64", 8, "c")
complex128 = DType("complex128", 16, "c")

# In the order of the C++ enumeration.
dtypes = (
    bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
    float16, bfloat16, float32, float64, complex64, complex128,
)  # fmt: skip


class Device:
    """A place of memory: ``Device("cpu")`` or ``Device("cuda:0")``."""

    __slots__ = ("type", "index")
    type: str
    index: int

    def __init__(self, type: str | Device, index: int | None = None) -> None:
        kind, number = (type.type, type.index) if isinstance(type, Device) else _parse(type)
        object.__setattr__(self, "type", kind)
        object.__setattr__(self, "index", number if index is None else index)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Device is constant: cannot set {name}")

    def __str__(self) -> str:
        return "cpu" if self.type == "cpu" else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return f"Device('{self}')"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            try:
                other = Device(other)
            except ValueError:
                return False
        if not isinstance(other, Device):
            return NotImplemented
        return (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> tuple[builtins.type[Device], tuple[str, int]]:
        return Device, (self.type, self.index)


def _parse(text: str) -> tuple[str, int]:
    kind, _, number = text.partition(":")
    if kind not in ("cpu", "cuda", "test") or (number and not number.isdecimal()):
        raise ValueError(f"Device: unknown device '{text}' (allowed: 'cpu', 'cuda', 'cuda:0', …)")
    return kind, int(number or 0)


_NAMES = {dtype.name: dtype for dtype in dtypes}
_PYTHON_TYPES = {bool: bool_, int: int64, float: float32, complex: complex64}


def find_dtype(value: object) -> DType | None:
    """The dtype of a name, a Python type or a NumPy dtype; None if there is none."""
    if isinstance(value, str):
        return _NAMES.get(value)
    if isinstance(value, type) and value in _PYTHON_TYPES:
        return _PYTHON_TYPES[value]
    name = getattr(value, "name", None)  # numpy.dtype
    if not isinstance(name, str):
        name = getattr(value, "__name__", None)  # numpy.float32
    if name == "bool_":
        name = "bool"
    return _NAMES.get(name) if isinstance(name, str) else None
