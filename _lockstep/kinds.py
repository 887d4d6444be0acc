"""Kinds of which each is one file of a folder: a new file is a new kind, and no other file names it."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def kinds_of(package: str) -> list[ModuleType]:
    """The modules of a package that are kinds, by name: neither packages, nor `protocol`, nor what begins with `_`."""
    found = pkgutil.iter_modules(importlib.import_module(package).__path__)
    names = sorted(each.name for each in found if not each.ispkg and each.name != "protocol")
    return [importlib.import_module(f"{package}.{name}") for name in names if not name.startswith("_")]
