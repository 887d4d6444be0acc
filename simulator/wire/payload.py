"""A function call, packed so that another process can make it."""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Mapping
from typing import Any

import dill
import msgspec

from _lockstep import names
from simulator.errors import UsageError


class _Payload(msgspec.Struct, frozen=True):
    # Modules that the child cannot find on sys.path (pytest's importlib mode, a script's neighbour), by name and file.
    modules: dict[str, str]
    call: bytes
    # The names that mean Lockstep's packages in the parent, and so in the child, whatever its path finds first.
    names: tuple[str, ...]


def pack(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
    """Pickle a call with dill: closures, lambdas and functions of `__main__` travel by value, others by reference.

    Raises:
        UsageError: something in the call cannot be pickled.
    """
    try:
        call = dill.dumps((function, args, dict(kwargs)), recurse=True)
    except Exception as error:
        name = getattr(function, "__qualname__", repr(function))
        raise UsageError(
            f"{name} or its arguments cannot be sent to a task ({type(error).__name__}: {error}); "
            "create what cannot be pickled inside the function"
        ) from error
    return msgspec.msgpack.encode(_Payload(modules=_private_modules(function, args), call=call, names=names.claimed()))


def unpack(data: bytes) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """Undo `pack` in the task."""
    payload = msgspec.msgpack.decode(data, type=_Payload)
    names.claim(*payload.names)
    for name, file in payload.modules.items():
        _load(name, file)
    function, args, kwargs = dill.loads(payload.call)  # noqa: S301 - from the parent, over a socket of its own
    return function, args, kwargs


def _private_modules(function: Callable[..., Any], args: tuple[Any, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for given in (function, *args):
        candidate = given
        while isinstance(candidate, functools.partial):
            candidate = candidate.func
        name = getattr(candidate, "__module__", None)
        module = sys.modules.get(name) if callable(candidate) and isinstance(name, str) else None
        file = getattr(module, "__file__", None)
        if name in (None, "__main__") or file is None or _importable(str(name)):
            continue
        found[str(name)] = file
    return found


def _importable(name: str) -> bool:
    # `importlib.util.find_spec` answers from sys.modules; the question is what a fresh process would find on sys.path.
    parent, _, _ = name.rpartition(".")
    path = getattr(sys.modules.get(parent), "__path__", None) if parent else None
    return importlib.machinery.PathFinder.find_spec(name, path) is not None


def _load(name: str, file: str) -> None:
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
