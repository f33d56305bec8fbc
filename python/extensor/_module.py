"""Module, the base class of networks: parameters, buffers and other modules as attributes."""

from __future__ import annotations

import contextlib
import copy
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, TypeVar

from . import _core
from ._autograd import HookHandle
from ._core import Tensor
from ._types import Device, ShapeError, ValueError

if TYPE_CHECKING:
    from ._core import DTypeLike

_M = TypeVar("_M", bound="Module")
_T = TypeVar("_T")
_OWN_ATTRIBUTES = ("_parameters", "_buffers", "_modules", "_hooks", "_layer")


def _in_container(
    prefix: str, value: Any, kind: type[_T], outside: tuple[int, ...]
) -> Iterator[tuple[str, _T]]:
    if id(value) in outside:  # a list that contains itself
        return
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        name = f"{prefix}.{key}"
        if isinstance(item, kind):
            yield name, item
        elif isinstance(item, (list, tuple, dict)):
            yield from _in_container(name, item, kind, (*outside, id(value)))


class Parameter(Tensor):
    """A tensor that a Module registers and an optimizer changes. Requires a gradient."""

    def __new__(cls, data: Any, requires_grad: bool = True) -> Parameter:
        source = data if isinstance(data, Tensor) else _core.tensor(data)
        result = super().__new__(cls, source.detach())
        if requires_grad:
            result.requires_grad_()
        return result

    def __repr__(self) -> str:
        return "Parameter containing:\n" + Tensor.__repr__(self)


class Module:
    """A network or a part of one. Subclasses create their parts in __init__ and define forward.

    Parts are attributes: modules, parameters, and lists, tuples and dicts of them, nested as you
    like. Their names are those of the attributes, indices and keys: "blocks.0.weight".

    >>> class Net(Module):
    ...     def __init__(self):
    ...         self.hidden = Linear(784, 128)
    ...         self.out = Linear(128, 10)
    ...     def forward(self, x):
    ...         return self.out(extensor.relu(self.hidden(x)))
    """

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module]

    def __new__(cls, *arguments: Any, **options: Any) -> Any:
        # Here rather than in __init__, so that a subclass need not call super().__init__().
        self = super().__new__(cls)
        for name in ("_parameters", "_buffers", "_modules"):
            object.__setattr__(self, name, {})
        object.__setattr__(self, "training", True)
        return self

    def forward(self, *inputs: Any, **options: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define forward()")

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        hooks = self.__dict__.get("_hooks")
        if not hooks:
            return self.forward(*inputs, **options)
        for before, hook in list(hooks.values()):
            if before:
                changed = hook(self, inputs)
                if changed is not None:
                    inputs = changed if isinstance(changed, tuple) else (changed,)
        output = self.forward(*inputs, **options)
        for before, hook in list(hooks.values()):
            if not before:
                changed = hook(self, inputs, output)
                output = output if changed is None else changed
        return output

    def _add_hook(self, before: bool, hook: Callable[..., Any]) -> HookHandle:
        hooks: dict[object, tuple[bool, Callable[..., Any]]] = self.__dict__.setdefault("_hooks", {})
        key = object()
        hooks[key] = (before, hook)
        return HookHandle(lambda: hooks.pop(key, None))

    def register_forward_pre_hook(self, hook: Callable[[Module, Any], Any]) -> HookHandle:
        """Calls hook(module, inputs) before forward; it may return other inputs."""
        return self._add_hook(True, hook)

    def register_forward_hook(self, hook: Callable[[Module, Any, Any], Any]) -> HookHandle:
        """Calls hook(module, inputs, output) after forward; it may return another output."""
        return self._add_hook(False, hook)

    # ---- attributes

    def __setattr__(self, name: str, value: Any) -> None:
        registries = (self._parameters, self._buffers, self._modules)
        if isinstance(value, Parameter):
            target: dict[str, Any] = self._parameters
        elif isinstance(value, Module):
            target = self._modules
        elif name in self._buffers or (name in self._parameters and value is None):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"{type(self).__name__}.{name} is a buffer: cannot assign "
                    f"{type(value).__name__} (accepted: a Tensor or None)"
                )
            target = self._buffers if name in self._buffers else self._parameters
        else:
            for registry in registries:
                registry.pop(name, None)  # type: ignore[attr-defined]
            object.__setattr__(self, name, value)
            return
        self.__dict__.pop(name, None)
        for registry in registries:
            if registry is not target:
                registry.pop(name, None)  # type: ignore[attr-defined]
        target[name] = value

    def __getattr__(self, name: str) -> Any:
        for registry in ("_parameters", "_buffers", "_modules"):
            found = self.__dict__.get(registry, {})
            if name in found:
                return found[name]
        raise AttributeError(f"{type(self).__name__} has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for registry in (self._parameters, self._buffers, self._modules):
            if name in registry:
                del registry[name]  # type: ignore[attr-defined]
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._parameters, *self._buffers, *self._modules})

    def register_buffer(self, name: str, tensor: Tensor | None) -> None:
        """Adds a tensor that is part of the state but has no gradient."""
        if hasattr(self, name) and name not in self._buffers:
            raise ValueError(f"register_buffer: {type(self).__name__} already has '{name}'")
        self._buffers[name] = tensor

    def register_parameter(self, name: str, parameter: Parameter | None) -> None:
        self._parameters[name] = parameter

    # ---- traversal

    def _contained(self, kind: type[_T]) -> Iterator[tuple[str, _T]]:
        """The modules or parameters in lists, tuples and dicts that are attributes."""
        for name, value in self.__dict__.items():
            if name not in _OWN_ATTRIBUTES and isinstance(value, (list, tuple, dict)):
                yield from _in_container(name, value, kind, ())

    def _own_modules(self) -> Iterator[tuple[str, Module]]:
        yield from list(self._modules.items())
        yield from self._contained(Module)

    def _own_parameters(self) -> Iterator[tuple[str, Tensor]]:
        for name, parameter in self._parameters.items():
            if parameter is not None:
                yield name, parameter
        yield from self._contained(Parameter)

    def _members(self) -> list[tuple[str, Any]]:
        """The parameters, buffers and modules of this module, without those of a C++ layer."""
        own: list[tuple[str, Any]] = list(Module._own_parameters(self))
        return own + list(Module._own_buffers(self)) + list(self._own_modules())

    def _own_buffers(self) -> Iterator[tuple[str, Tensor]]:
        for name, buffer in self._buffers.items():
            if buffer is not None:
                yield name, buffer

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all inside, each once."""
        seen: set[int] = set()
        stack: list[tuple[str, Module]] = [(prefix, self)]
        while stack:
            name, module = stack.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            yield name, module
            inside = [(_join(name, key), value) for key, value in module._own_modules()]
            stack.extend(reversed(inside))

    def modules(self) -> Iterator[Module]:
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        return self._own_modules()

    def children(self) -> Iterator[Module]:
        return (module for _, module in self._own_modules())

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """The parameters with names such as "hidden.weight". Tied ones are listed once."""
        seen: set[int] = set()
        for prefix, module in self.named_modules():
            for name, parameter in module._own_parameters():
                if parameter._identity not in seen:
                    seen.add(parameter._identity)
                    yield _join(prefix, name), parameter

    def parameters(self) -> Iterator[Tensor]:
        return (parameter for _, parameter in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        for prefix, module in self.named_modules():
            for name, buffer in module._own_buffers():
                yield _join(prefix, name), buffer

    def buffers(self) -> Iterator[Tensor]:
        return (buffer for _, buffer in self.named_buffers())

    def parameter_count(self) -> int:
        return sum(parameter.size for parameter in self.parameters())

    # ---- state

    def _own_state(self) -> dict[str, Tensor]:
        return {name: t.detach() for own in (self._own_parameters(), self._own_buffers())
                for name, t in own}  # fmt: skip

    def state_dict(self, prefix: str = "") -> dict[str, Tensor]:
        """Parameters and buffers by name, detached but sharing memory. Tied parameters appear under
        each of their names."""
        state = {_join(prefix, name): tensor for name, tensor in self._own_state().items()}
        for name, module in self._own_modules():
            state.update(module.state_dict(_join(prefix, name)))
        return state

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Copies values into the module and converts dtypes. ValueError for missing or unknown
        names unless strict is False, ShapeError for another shape; nothing is changed then."""
        if not isinstance(state, Mapping):
            raise TypeError(
                f"load_state_dict: {type(self).__name__}: argument 'state' is {type(state).__name__} "
                "(accepted: a dict from names to Tensors)"
            )
        own = self.state_dict()
        missing = [name for name in own if name not in state]
        unknown = [name for name in state if name not in own]
        if strict and (missing or unknown):
            raise ValueError(
                f"load_state_dict: {type(self).__name__}: missing names: "
                f"{', '.join(missing) or 'none'}; unknown names: {', '.join(unknown) or 'none'}"
            )
        values = {name: _core.asarray(state[name]) for name in own if name in state}
        for name, value in values.items():
            if value.shape != own[name].shape:
                raise ShapeError(
                    f"load_state_dict: '{name}' has shape {list(value.shape)} in the state, must be "
                    f"{list(own[name].shape)}"
                )
        for name, value in values.items():
            own[name].copy_from(value)

    # ---- modes and conversions

    def train(self: _M, mode: bool = True) -> _M:
        for module in self.modules():
            module._set_training(mode)
        return self

    def eval(self: _M) -> _M:
        return self.train(False)

    def _set_training(self, mode: bool) -> None:
        object.__setattr__(self, "training", mode)

    def to(
        self: _M,
        *targets: DTypeLike | Device | str,
        dtype: DTypeLike | None = None,
        device: Device | str | None = None,
        memory_format: str | None = None,
    ) -> _M:
        """Converts parameters and buffers in place to a dtype (those that are floats), a device, or
        'channels_last' or 'contiguous'. Optimizers that hold them remain valid."""
        for target in (*targets, dtype, device, memory_format):
            if target is not None:
                _core._convert_module(self, target)
        return self

    def cpu(self: _M) -> _M:
        return self.to(device="cpu")

    def cuda(self: _M, index: int = 0) -> _M:
        """Moves the module to a GPU. DeviceError if the machine has none."""
        return self.to(device=f"cuda:{index}")

    def float(self: _M) -> _M:
        return self.to(dtype="float32")

    def double(self: _M) -> _M:
        return self.to(dtype="float64")

    def half(self: _M) -> _M:
        return self.to(dtype="float16")

    def bfloat16(self: _M) -> _M:
        return self.to(dtype="bfloat16")

    def summary(self, *inputs: Any) -> str:
        """The tree of modules with shapes and parameter counts. With inputs, also the shape of every
        output and the floating-point operations of a call."""
        with evaluating(self) if inputs else contextlib.nullcontext():
            text: str = _core._summarize_module(self, inputs)
        return text

    def requires_grad_(self: _M, requires_grad: bool = True) -> _M:
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self) -> None:
        for parameter in self.parameters():
            parameter.grad = None

    def apply(self: _M, function: Callable[[Module], Any]) -> _M:
        """Calls the function for every module inside, then for this one."""
        for module in self.children():
            module.apply(function)
        function(self)
        return self

    def __deepcopy__(self: _M, memo: dict[int, Any]) -> _M:
        result = type(self).__new__(type(self))
        memo[id(self)] = result
        for name, value in self.__dict__.items():
            object.__setattr__(result, name, copy.deepcopy(value, memo))
        return result

    # ---- printing

    def extra_repr(self) -> str:
        return ""

    def __repr__(self) -> str:
        lines = []
        for name, module in self._own_modules():
            text = repr(module).replace("\n", "\n  ")
            lines.append(f"  ({name}): {text}")
        inside = "\n".join(lines)
        extra = self.extra_repr()
        if not lines:
            return f"{type(self).__name__}({extra})"
        return f"{type(self).__name__}({extra}\n{inside}\n)"


class Layer(Module):
    """A layer of the C++ library."""

    _layer: Any

    def __init__(self, layer: Any) -> None:
        object.__setattr__(self, "_layer", layer)

    def forward(self, *inputs: Any, **options: Any) -> Any:
        return self._layer(*inputs, **options)

    def __getattr__(self, name: str) -> Any:
        layer = self.__dict__.get("_layer")
        if layer is not None:
            for own in (layer.parameters(), layer.buffers()):
                if name in own:
                    return own[name]
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._layer.state():
            raise AttributeError(
                f"{type(self).__name__}.{name} cannot be replaced; write into it with "
                f"layer.{name}.copy_from(…) under no_grad()"
            )
        super().__setattr__(name, value)

    def _own_parameters(self) -> Iterator[tuple[str, Tensor]]:
        yield from self._layer.parameters().items()
        yield from super()._own_parameters()

    def _own_buffers(self) -> Iterator[tuple[str, Tensor]]:
        yield from self._layer.buffers().items()
        yield from super()._own_buffers()

    def _own_state(self) -> dict[str, Tensor]:
        return {**self._layer.state(), **super()._own_state()}

    def _set_training(self, mode: bool) -> None:
        super()._set_training(mode)
        self._layer.train(mode)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        result = type(self).__new__(type(self))
        memo[id(self)] = result
        for name, value in self.__dict__.items():
            copied = value.copy() if name == "_layer" else copy.deepcopy(value, memo)
            object.__setattr__(result, name, copied)
        return result

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{type(self).__name__} cannot be pickled; save its state_dict() and load it into a "
            "new module"
        )

    def extra_repr(self) -> str:
        description: str = self._layer.describe()
        return description


@contextlib.contextmanager
def evaluating(model: Module) -> Iterator[None]:
    """Sets evaluation mode, and then the mode that each module had."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        for module, _ in modes:
            module._set_training(False)
        yield
    finally:
        for module, training in modes:
            module._set_training(training)


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def make_classes(target: dict[str, Any], source: Any, module: str) -> None:
    """Adds a class for each constructor in a module of the extension, and its name to __all__."""
    for name, make in vars(source).items():
        if not name.startswith("_"):
            target[name] = _make_class(name, make, module)
            target["__all__"].append(name)


def _make_class(name: str, make: Any, module: str) -> type[Layer]:
    def init(self: Layer, *arguments: Any, **options: Any) -> None:
        Layer.__init__(self, make(*arguments, **options))

    init.__name__ = "__init__"
    init.__doc__ = make.__doc__
    return type(name, (Layer,), {"__init__": init, "__doc__": make.__documentation__,
                                 "__module__": module})  # fmt: skip
