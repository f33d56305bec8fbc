"""One class for each model of the C++ library; _models.pyi has their signatures."""

from __future__ import annotations

from . import _core
from ._module import make_classes

__all__: list[str] = []
make_classes(globals(), _core._model_layers, "extensor.models")
