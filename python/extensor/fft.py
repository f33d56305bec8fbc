"""Fourier transforms along axes of any length, between complex numbers and from and to real ones."""

from __future__ import annotations

from . import _core
from ._core._fft import *

__all__ = [_name for _name in vars(_core._fft) if not _name.startswith("_")]
