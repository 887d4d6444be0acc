"""All rules, by the type of the operation; each file of this folder has those of one family."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from harness.relations.protocol import RULES, Rule

__all__ = ["all_rules"]


@cache
def all_rules() -> dict[str, Rule]:
    """Every rule."""
    for info in iter_modules(__path__, f"{__name__}."):
        import_module(info.name)
    return RULES
