"""Neural networks: modules, layers and losses, with the names of PyTorch.

>>> model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
>>> logits = model(x)
"""

from __future__ import annotations

from typing import Any, Iterable, Iterator

from . import _layers
from ._layers import *
from ._module import Layer, Module, Parameter

__all__ = ["Layer", "Module", "ModuleList", "Parameter", "Sequential"]
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
