"""Lockstep's package `simulator` under a name of its own, in the process of a program that has another `simulator`.

There the program must find its own, and Lockstep's still counts its steps. Its files are the same; only what their
import statements call `simulator` is the private package. Nothing of it is pickled, since such a process talks to its
run in messages.
"""

from __future__ import annotations

import builtins
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Any

from _lockstep.names import HOME

_PUBLIC = "simulator"
PRIVATE = "_lockstep_simulator"


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": _import}
        super().exec_module(module)


class _Finder:
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top, *rest = fullname.split(".")
        if top != PRIVATE:
            return None
        place = HOME.joinpath(_PUBLIC, *rest)
        file, inside = (place / "__init__.py", [str(place)]) if place.is_dir() else (place.with_suffix(".py"), None)
        if not file.is_file():
            return None
        loader = _Loader(fullname, str(file))
        return importlib.util.spec_from_file_location(fullname, file, loader=loader, submodule_search_locations=inside)


def offer_private() -> None:
    """From now on, `PRIVATE` can be imported."""
    sys.meta_path.insert(0, _Finder())


def _import(
    name: str,
    globals: Mapping[str, Any] | None = None,  # noqa: A002 - Python's own names of these arguments
    locals: Mapping[str, Any] | None = None,  # noqa: A002
    fromlist: Sequence[str] = (),
    level: int = 0,
) -> ModuleType:
    """What an import statement in these files does."""
    if level == 0 and name.partition(".")[0] == _PUBLIC:
        name = PRIVATE + name[len(_PUBLIC) :]
    return builtins.__import__(name, globals, locals, fromlist, level)
