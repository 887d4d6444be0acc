"""tf_keras's own test files import `tf_keras.x`, which the wheel has as `tf_keras.src.x`: here both are one module.

In the sources `tf_keras` is what the wheel calls `tf_keras.src`, while the wheel's `tf_keras` has public names only.
What a module of the sources lacks, such as `tf_keras.Sequential`, is asked of the public one.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_PUBLIC, _SOURCES = "tf_keras", "tf_keras.src"
# Public folders that are no part of the sources.
_NOT_OURS = (_SOURCES, f"{_PUBLIC}.api", f"{_PUBLIC}.protobuf")


class _SameModule(importlib.abc.Loader):
    """Gives the module of the sources under its other name, and leaves it as it is."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has just given it the other name's.
        module.__spec__ = self._spec


class _Sources(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top, _, rest = fullname.partition(".")
        if top != _PUBLIC or not rest or _among(fullname, _NOT_OURS):
            return None
        name = f"{_SOURCES}.{rest}"
        try:
            found = importlib.util.find_spec(name)
        except ImportError:  # also where what is above it is no package
            return None
        if found is None:
            return None
        return ModuleSpec(fullname, _SameModule(name), is_package=found.submodule_search_locations is not None)


def _among(name: str, packages: Sequence[str]) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in packages)


class _Sourced(ModuleType):
    """`tf_keras` as its sources have it."""

    def __init__(self, public: ModuleType) -> None:
        super().__init__(_PUBLIC, public.__doc__)
        self.__path__ = list(public.__path__)
        self.__file__ = public.__file__
        self.__spec__ = public.__spec__
        self._public = public

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            return getattr(self._public, name)
        try:
            return importlib.import_module(f"{_PUBLIC}.{name}")
        except ModuleNotFoundError:
            return getattr(self._public, name)


def install() -> None:
    """From now on have it so in this process; once."""
    public = importlib.import_module(_PUBLIC)
    if isinstance(public, _Sourced):
        return
    for name in list(sys.modules):
        if name.startswith(f"{_PUBLIC}.") and not _among(name, _NOT_OURS):
            del sys.modules[name]
    sys.meta_path.insert(0, _Sources())
    sys.modules[_PUBLIC] = _Sourced(public)
