"""Forms in which machines read diagnostics, one file for each; a new file with a `FORMAT` is a new one."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from harness.judging.diagnostics.formats.protocol import Format, ReportedVerdict

__all__ = ["Format", "ReportedVerdict", "all_formats"]


@cache
def all_formats() -> dict[str, Format]:
    """Every form of this package, by its name."""
    names = [module.name for module in pkgutil.iter_modules(__path__) if module.name != "protocol"]
    return {name: importlib.import_module(f"{__name__}.{name}").FORMAT for name in names}
