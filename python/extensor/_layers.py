"""One class for each layer of the C++ library; _layers.pyi has their signatures."""

from __future__ import annotations

from typing import Any

from . import _core
from ._module import Layer

__all__: list[str] = []


def _make_class(name: str, make: Any) -> type[Layer]:
    def init(self: Layer, *arguments: Any, **options: Any) -> None:
        Layer.__init__(self, make(*arguments, **options))

    init.__name__ = "__init__"
    init.__doc__ = make.__doc__
    return type(name, (Layer,), {"__init__": init, "__doc__": make.__documentation__,
                                 "__module__": "extensor.nn"})  # fmt: skip


for _name, _make in vars(_core._layers).items():
    if not _name.startswith("_"):
        globals()[_name] = _make_class(_name, _make)
        __all__.append(_name)
