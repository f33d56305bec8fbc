"""Metrics of training."""

from . import _core
from ._core._train import *

__all__ = [_name for _name in vars(_core._train) if not _name.startswith("_")]
