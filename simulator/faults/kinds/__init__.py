"""The kinds of faults, one per file; a new file with a subclass of `Fault` called `KIND` is a new kind."""

from __future__ import annotations

from functools import cache

from _lockstep.kinds import kinds_of
from simulator.faults.protocol import Fault

__all__ = ["all_kinds"]


@cache
def all_kinds() -> dict[str, type[Fault]]:
    """Every kind of this package by its name, sorted."""
    found = [module.KIND for module in kinds_of(__name__)]
    return {
        str(kind.__struct_config__.tag): kind for kind in sorted(found, key=lambda kind: kind.__struct_config__.tag)
    }
