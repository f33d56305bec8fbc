"""Python functions as C++ objects hold them."""

from __future__ import annotations

import weakref
from typing import Any, Callable


def relay(owner: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function for a C++ object that `owner` holds. It calls `function`, which `owner` keeps.

    The garbage collector does not see what C++ objects refer to. If they referred to functions that
    refer to `owner`, none of these would ever be freed.
    """
    functions: list[Callable[..., Any]] = owner.__dict__.setdefault("_functions", [])
    position = len(functions)
    functions.append(function)
    reference: Any = weakref.ref(owner)
    return lambda *arguments: reference()._functions[position](*arguments)
