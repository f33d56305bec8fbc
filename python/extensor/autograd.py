"""Gradients, and functions with a backward of their own.

>>> class Cube(Function):
...     @staticmethod
...     def forward(ctx, x):
...         ctx.save_for_backward(x)
...         return x * x * x
...     @staticmethod
...     def backward(ctx, grad):
...         (x,) = ctx.saved_tensors
...         return grad * 3 * x * x
>>> y = Cube.apply(x)
"""

from __future__ import annotations

from typing import Any, Sequence

from . import _core
from ._autograd import detect_anomaly, enable_grad, gradient_eps, no_grad, set_grad_enabled
from ._core import (
    Tensor,
    checkpoint,
    grad,
    hessian,
    hvp,
    is_grad_enabled,
    jacobian,
    jvp,
    vjp,
)

__all__ = [
    "Context", "Function", "checkpoint", "detect_anomaly", "enable_grad", "grad", "gradient_eps",
    "hessian", "hvp", "is_grad_enabled", "jacobian", "jvp", "no_grad", "set_grad_enabled", "vjp",
]  # fmt: skip


class Context:
    """Passes values from the forward to the backward of one call of a Function."""

    def __init__(self) -> None:
        self._saved: tuple[Tensor | None, ...] = ()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        self._saved = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return self._saved


class Function:
    """A function whose gradient you write. Subclasses define the static methods forward(ctx, …) and
    backward(ctx, …); backward returns one gradient, or None, for each argument of forward.

    Tensors in the arguments are recorded as inputs; other arguments are passed through.
    """

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Any:
        raise NotImplementedError("Function.forward is not defined")

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise NotImplementedError("Function.backward is not defined")

    @classmethod
    def apply(cls, *arguments: Any) -> Any:
        positions = [k for k, a in enumerate(arguments) if isinstance(a, Tensor)]
        ctx = Context()
        single = False

        def forward(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
            nonlocal single
            full = list(arguments)
            for k, tensor in zip(positions, inputs):
                full[k] = tensor
            result = cls.forward(ctx, *full)
            single = isinstance(result, Tensor)
            return [result] if single else list(result)

        def backward(
            gradients: Sequence[Tensor], inputs: Sequence[Tensor], outputs: Sequence[Tensor]
        ) -> list[Tensor | None]:
            result = cls.backward(ctx, *gradients)
            if isinstance(result, Tensor) or result is None:
                result = (result,)
            if len(result) != len(arguments):
                raise _count_error(cls.__name__, len(result), len(arguments))
            return [result[k] for k in positions]

        outputs = _core._apply_function(
            cls.__name__, forward, backward, [arguments[k] for k in positions]
        )
        return outputs[0] if single else tuple(outputs)


def _count_error(name: str, found: int, wanted: int) -> Exception:
    from ._types import ShapeError

    return ShapeError(f"{name}: backward returned {found} gradients for {wanted} arguments")
