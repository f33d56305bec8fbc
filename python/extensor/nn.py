"""Neural networks: modules, layers and losses, with the names of PyTorch.

>>> model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
>>> logits = model(x)
"""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping

from . import _layers
from ._layers import *
from ._module import Layer, Module, Parameter

__all__ = ["Layer", "Module", "ModuleDict", "ModuleList", "Parameter", "Sequential"]
__all__ += _layers.__all__


class Sequential(Module):
    """Calls modules one after another."""

    def __init__(self, *modules: Module) -> None:
        for k, module in enumerate(modules):
            if not isinstance(module, Module):
                raise TypeError(
                    f"Sequential: argument {k} is {type(module).__name__} (accepted: a Module)"
                )
            setattr(self, str(k), module)

    def forward(self, x: Any) -> Any:
        for module in self._modules.values():
            x = module(x)
        return x

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, index: int) -> Module:
        return list(self._modules.values())[index]

    def __iter__(self) -> Iterator[Module]:
        return iter(list(self._modules.values()))


class ModuleList(Module):
    """A list of modules, which a subclass of Module calls as it likes."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        self.extend(modules)

    def append(self, module: Module) -> ModuleList:
        if not isinstance(module, Module):
            raise TypeError(
                f"ModuleList: the element is {type(module).__name__} (accepted: a Module)"
            )
        setattr(self, str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        for module in modules:
            self.append(module)
        return self

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, index: int) -> Module:
        return list(self._modules.values())[index]

    def __iter__(self) -> Iterator[Module]:
        return iter(list(self._modules.values()))


class ModuleDict(Module):
    """Modules by name. A dict that is an attribute of a Module works as well."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        for name, module in (modules or {}).items():
            self[name] = module

    def __setitem__(self, name: str, module: Module) -> None:
        if not isinstance(module, Module):
            raise TypeError(
                f"ModuleDict: the value of {name!r} is {type(module).__name__} (accepted: a Module)"
            )
        self._modules[name] = module

    def __getitem__(self, name: str) -> Module:
        return self._modules[name]

    def __delitem__(self, name: str) -> None:
        del self._modules[name]

    def __contains__(self, name: object) -> bool:
        return name in self._modules

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._modules))

    def keys(self) -> list[str]:
        return list(self._modules)

    def values(self) -> list[Module]:
        return list(self._modules.values())

    def items(self) -> list[tuple[str, Module]]:
        return list(self._modules.items())
