"""All rules, by the type of the operation; each file of this folder has those of one family."""

from __future__ import annotations

from functools import cache

from _lockstep.kinds import kinds_of
from harness.relations.protocol import RULES, Rule

__all__ = ["all_rules"]


@cache
def all_rules() -> dict[str, Rule]:
    """Every rule."""
    kinds_of(__name__)
    return RULES
