"""One class for each optimizer and schedule of the C++ library; _optimizers.pyi has their
signatures."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping

from . import _core
from ._core import Tensor
from ._relay import relay
from ._types import ValueError

__all__ = ["LRScheduler", "Optimizer"]


class _Unpicklable:
    """An object of the C++ library, which has no copy: pickle and copy say what to do."""

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{type(self).__name__} cannot be pickled or copied; save its state_dict() and load it "
            "into a new one"
        )


class Optimizer(_Unpicklable):
    """Holds parameters and their states, and steps all of them.

    `params` are tensors, or dicts with the key "params" and options of that group.
    """

    _make: Any
    _add: Any
    _optimizer: Any

    def __init__(self, params: Iterable[Any], **options: Any) -> None:
        groups = _groups(type(self).__name__, params)
        first = {**options, **groups[0]}
        self._defaults = options
        self._optimizer = self._make(first.pop("params"), **first)
        for group in groups[1:]:
            self.add_param_group(group)

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        merged = {**self._defaults, **group}
        type(self)._add(self._optimizer, list(merged.pop("params")), **merged)

    def step(self) -> None:
        """Steps every parameter that has a gradient."""
        self._optimizer.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops the gradients, or sets them to zero. Call it before the next backward()."""
        self._optimizer.zero_grad(set_to_none)

    @property
    def group_count(self) -> int:
        count: int = self._optimizer.group_count()
        return count

    def parameters(self, group: int = 0) -> list[Tensor]:
        found: list[Tensor] = self._optimizer.parameters(group)
        return found

    def lr(self, group: int = 0) -> float:
        rate: float = self._optimizer.lr(group)
        return rate

    def set_lr(self, lr: float, group: int | None = None) -> None:
        for k in range(self.group_count) if group is None else (group,):
            self._optimizer.set_lr(k, lr)

    def state_dict(self) -> dict[str, Any]:
        """Options and states under PyTorch's names, joined by dots: "state.0.exp_avg"."""
        state: dict[str, Any] = self._optimizer.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._optimizer.load_state_dict(_state(self, state))

    def __repr__(self) -> str:
        rates = ", ".join(f"{self.lr(k):g}" for k in range(self.group_count))
        return f"{type(self).__name__}(lr: {rates})"


class LRScheduler(_Unpicklable):
    """Sets the learning rates of an optimizer's groups."""

    _make: Any
    _schedule: Any

    def __init__(self, optimizer: Optimizer, *arguments: Any, **options: Any) -> None:
        def kept(value: Any) -> Any:
            return relay(self, value) if callable(value) else value

        self._optimizer = optimizer
        self._schedule = self._make(
            _optimizer_of(self, optimizer),
            *map(kept, arguments),
            **{name: kept(value) for name, value in options.items()},
        )

    @property
    def optimizer(self) -> Optimizer:
        return self._optimizer

    def step(self) -> None:
        """Advances to the next epoch (or batch)."""
        self._schedule.step()

    @property
    def last_epoch(self) -> int:
        epoch: int = self._schedule.last_epoch()
        return epoch

    def last_lr(self) -> list[float]:
        rates: list[float] = self._schedule.last_lr()
        return rates

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = self._schedule.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._schedule.load_state_dict(_state(self, state))


class _State(_Unpicklable):
    """An object of the C++ library with a state."""

    _make: Any
    _held: Any

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = self._held.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._held.load_state_dict(_state(self, state))


class _GradScaler(_State):
    def __init__(self, **options: Any) -> None:
        self._held = self._make(**options)

    def scale(self, loss: Tensor) -> Tensor:
        """loss · scale; call backward() of the result."""
        scaled: Tensor = self._held.scaled(loss)
        return scaled

    def get_scale(self) -> float:
        scale: float = self._held.scale()
        return scale

    def unscale(self, optimizer: Optimizer) -> None:
        """Divides the gradients by the scale, before they are clipped; at most once before a step."""
        self._held.unscale(_optimizer_of(self, optimizer))

    def step(self, optimizer: Optimizer) -> bool:
        """Steps the optimizer unless a gradient is not finite, and returns whether it did."""
        made: bool = self._held.step(_optimizer_of(self, optimizer))
        return made

    def update(self) -> None:
        """Updates the scale; call it after the steps of all optimizers."""
        self._held.update()


class _ExponentialMovingAverage(_State):
    def __init__(self, params: Iterable[Tensor], *arguments: Any, **options: Any) -> None:
        self._held = self._make(list(params), *arguments, **options)

    def update(self) -> None:
        """average ← decay · average + (1 − decay) · parameter"""
        self._held.update()

    def apply(self) -> None:
        """Replaces the parameters by the averages, until restore()."""
        self._held.apply()

    def restore(self) -> None:
        self._held.restore()

    def applied(self) -> bool:
        applied: bool = self._held.applied()
        return applied

    def apply_to(self, others: Iterable[Tensor]) -> None:
        """Copies the averages into other tensors of the same shapes."""
        self._held.apply_to(list(others))

    def averages(self) -> list[Tensor]:
        return list(self._held.averages())


class _LBFGS(_State):
    def __init__(self, params: Iterable[Tensor], **options: Any) -> None:
        self._held = self._make(list(params), **options)

    def step(self, closure: Callable[[], Tensor]) -> Tensor:
        """Steps; the closure computes the loss and its gradients. Returns the first loss."""
        loss: Tensor = self._held.step(closure)
        return loss

    def zero_grad(self) -> None:
        self._held.zero_grad()


class _ReduceLROnPlateau(_State):
    def __init__(self, optimizer: Optimizer, **options: Any) -> None:
        self._optimizer = optimizer
        self._held = self._make(_optimizer_of(self, optimizer), **options)

    @property
    def optimizer(self) -> Optimizer:
        return self._optimizer

    def step(self, metric: float) -> None:
        self._held.step(float(metric))

    @property
    def last_epoch(self) -> int:
        epoch: int = self._held.last_epoch()
        return epoch

    def last_lr(self) -> list[float]:
        rates: list[float] = self._held.last_lr()
        return rates


def _optimizer_of(user: Any, optimizer: Any) -> Any:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(
            f"{type(user).__name__}: argument 'optimizer' is {type(optimizer).__name__} "
            "(accepted: an optimizer of extensor.optim)"
        )
    return optimizer._optimizer


def _state(user: Any, state: Any) -> dict[str, Any]:
    if not isinstance(state, Mapping):
        raise TypeError(
            f"load_state_dict: {type(user).__name__}: argument 'state' is {type(state).__name__} "
            "(accepted: the dict that state_dict() returns)"
        )
    return dict(state)


def _groups(name: str, params: Iterable[Any]) -> list[dict[str, Any]]:
    if isinstance(params, Tensor):
        raise TypeError(f"{name}: argument 'params' is a Tensor (accepted: a list of Tensors)")
    listed = list(params)
    if not listed or not isinstance(listed[0], Mapping):
        return [{"params": listed}]
    for group in listed:
        if not isinstance(group, Mapping) or "params" not in group:
            raise ValueError(f"{name}: a group of params has no key 'params'")
    return [{**group, "params": list(group["params"])} for group in listed]


for _name, _made in vars(_core._optimizers).items():
    if not _name.startswith("_") and not _name.endswith("_add_group"):
        _members = {
            "_make": staticmethod(_made),
            "_add": staticmethod(getattr(_core._optimizers, _name + "_add_group")),
            "__doc__": _made.__doc__,
            "__module__": "extensor.optim",
        }
        globals()[_name] = type(_name, (Optimizer,), _members)
        __all__.append(_name)
for _name, _made in vars(_core._schedules).items():
    if not _name.startswith("_"):
        _members = {
            "_make": staticmethod(_made),
            "__doc__": _made.__doc__,
            "__module__": "extensor.optim",
        }
        globals()[_name] = type(_name, (LRScheduler,), _members)
        __all__.append(_name)
for _name, _made in vars(_core._optimizer_tools).items():
    if not _name.startswith("_"):
        _members = {
            "_make": staticmethod(_made),
            "__doc__": _made.__documentation__,
            "__module__": "extensor.optim",
        }
        globals()[_name] = type(_name, (globals()["_" + _name],), _members)
        __all__.append(_name)
