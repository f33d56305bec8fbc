"""Common networks, and text generation.

>>> model = models.Gpt(vocabulary=65, block=64)
>>> models.generate(model.eval(), prompt, tokens=100, top_p=0.9)
"""

from . import _core, _models
from ._core._models import *
from ._models import *

__all__ = [_name for _name in vars(_core._models) if not _name.startswith("_")]
__all__ += _models.__all__
