"""Models in ONNX files: export for other runtimes, and import from other libraries.

>>> onnx.export(model, "net.onnx", x, dynamic_batch=True)
>>> net = onnx.load("net.onnx")
>>> y = net(x)
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, Callable, Sequence

from . import _core
from ._core import Tensor
from ._module import Layer, Module, evaluating

__all__ = ["OnnxModel", "export", "load"]


class OnnxModel(Layer):
    """A model from an ONNX file. Its floating-point initializers are parameters; it runs as in
    inference, and gradients propagate. With several outputs it returns a list."""


def export(
    model: Module | Callable[..., Any],
    path: str | os.PathLike[str],
    *inputs: Any,
    input_names: Sequence[str] = (),
    output_names: Sequence[str] = (),
    dynamic_batch: bool = False,
    opset: int = 18,
) -> None:
    """Writes the ops that a module or a function calls for the example inputs.

    The model is called two or three times, in evaluation mode. Parameters and buffers are
    initializers under their names. With dynamic_batch, axis 0 of every input is a batch of any
    size. ValueError, before anything is written, for an op without a form in ONNX and for a model
    whose calls depend on the values of its inputs.
    """
    state: dict[str, Tensor] = {}
    mode: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if isinstance(model, Module):
        state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        mode = evaluating(model)

    def call(given: list[Tensor]) -> list[Tensor]:
        result = model(*given)
        return [result] if isinstance(result, Tensor) else list(result)

    with mode:
        _core._export_onnx(os.fsencode(path), call, state, list(inputs), list(input_names),
                           list(output_names), dynamic_batch, opset)  # fmt: skip


def load(path: str | os.PathLike[str]) -> OnnxModel:
    """Reads a model. FormatError for a damaged file, and for an operator, attribute or type that is
    not supported."""
    return OnnxModel(_core._load_onnx(os.fsencode(path)))
