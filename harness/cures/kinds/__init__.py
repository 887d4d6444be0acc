"""The cures, one file for each; a new file with a `CURE` is a new one."""

from __future__ import annotations

from functools import cache

from _lockstep.kinds import kinds_of
from harness.cures.protocol import Cure

__all__ = ["all_cures"]


@cache
def all_cures() -> tuple[Cure, ...]:
    """Every cure of this package."""
    return tuple(module.CURE for module in kinds_of(__name__))
