"""Forms in which machines read diagnostics, one file for each; a new file with a `FORMAT` is a new one."""

from __future__ import annotations

from functools import cache

from _lockstep.kinds import kinds_of
from harness.judging.diagnostics.formats.protocol import Format, ReportedVerdict

__all__ = ["Format", "ReportedVerdict", "all_formats"]


@cache
def all_formats() -> dict[str, Format]:
    """Every form of this package, by its name."""
    return {module.__name__.rpartition(".")[2]: module.FORMAT for module in kinds_of(__name__)}
