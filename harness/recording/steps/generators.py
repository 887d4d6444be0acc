"""The random generators of NumPy and Python that a function may use: the global ones, and those that it refers to."""

from __future__ import annotations

import contextlib
import copy
import functools
import random
import types
from collections.abc import Callable, Iterator
from typing import Any

_OBJECTS_MAX = 1000
_DEPTH_MAX = 4


def generators_saved(function: Callable[..., Any]) -> Callable[[], None]:
    """Note the state of all of them; what is returned sets them back to it."""
    import numpy as np

    saved: list[tuple[Callable[[Any], Any], Any]] = [
        (random.setstate, random.getstate()),
        (np.random.set_state, np.random.get_state(legacy=False)),
    ]
    for each in _reached(function):
        if isinstance(each, np.random.Generator):
            bits = each.bit_generator
            saved.append((functools.partial(setattr, bits, "state"), copy.deepcopy(bits.state)))
        elif isinstance(each, np.random.RandomState):
            saved.append((each.set_state, each.get_state(legacy=False)))
        elif isinstance(each, random.Random):
            saved.append((each.setstate, each.getstate()))

    def restore() -> None:
        for set_state, state in saved:
            set_state(copy.deepcopy(state))

    return restore


def _reached(function: Any) -> Iterator[Any]:
    """What a function refers to, directly or by other functions, attributes and items, as far as that is few."""
    waiting, seen = [(function, 0)], set[int]()
    while waiting and len(seen) < _OBJECTS_MAX:
        each, depth = waiting.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if depth < _DEPTH_MAX:
            with contextlib.suppress(Exception):  # the program's own objects may do anything where they are looked at
                waiting += [(inner, depth + 1) for inner in _inner(each)]


def _inner(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return list(value[:_OBJECTS_MAX])
    if isinstance(value, dict):
        return list(value.values())[:_OBJECTS_MAX]
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    found = [getattr(value, "__self__", None), getattr(value, "__func__", None)]
    if (code := getattr(value, "__code__", None)) is not None:
        with contextlib.suppress(ValueError):  # a cell is empty until its variable is
            found += [cell.cell_contents for cell in value.__closure__ or ()]
        found += [value.__globals__[name] for name in code.co_names if name in value.__globals__]
        found += [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    elif type(value).__module__ not in ("builtins", "numpy"):
        found += list(getattr(value, "__dict__", {}).values())[:_OBJECTS_MAX]
    return [each for each in found if each is not None and not isinstance(each, types.ModuleType)]
