"""Functions for language models."""

from . import _core
from ._core._models import *

__all__ = [_name for _name in vars(_core._models) if not _name.startswith("_")]
