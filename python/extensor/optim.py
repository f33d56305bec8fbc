"""Optimizers, learning-rate schedules and gradient clipping.

>>> optimizer = optim.AdamW(model.parameters(), lr=1e-3)
>>> optimizer.zero_grad()
>>> loss.backward()
>>> optimizer.step()
"""

from __future__ import annotations

from typing import Iterable

from . import _core, _optimizers
from ._core import Tensor
from ._optimizers import *

__all__ = ["clip_grad_norm", "clip_grad_value"]
__all__ += _optimizers.__all__


def clip_grad_norm(
    parameters: Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:
    """Scales the gradients if their joint norm exceeds max_norm, and returns that norm."""
    return _core._optim.clip_grad_norm(list(parameters), max_norm, norm_type, error_if_nonfinite)


def clip_grad_value(parameters: Iterable[Tensor], clip_value: float) -> None:
    """Clips every element of every gradient to [−clip_value, clip_value]."""
    _core._optim.clip_grad_value(list(parameters), clip_value)
