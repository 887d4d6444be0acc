"""The cures, one file for each; a new file with a `CURE` is a new one."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from harness.cures.protocol import Cure

__all__ = ["all_cures"]


@cache
def all_cures() -> tuple[Cure, ...]:
    """Every cure of this package."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(importlib.import_module(f"{__name__}.{name}").CURE for name in names)
