"""One class for each layer of the C++ library; _layers.pyi has their signatures."""

from __future__ import annotations

from . import _core
from ._module import make_classes

__all__: list[str] = []
make_classes(globals(), _core._layers, "extensor.nn")
