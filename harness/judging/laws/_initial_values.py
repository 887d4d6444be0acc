"""What several processes begin with, variable by variable."""

from __future__ import annotations

from collections.abc import Sequence

from harness.evidence.observed import unique_names
from harness.evidence.trace import Start, Variable
from harness.evidence.variable_pairs import common_places, placed

_WHOLE = ("copies", "plain", "mirrored", "statistics")
"""Kinds of variables of which each process has the whole, or should."""


def initial_values(starts: Sequence[Start], kinds: Sequence[str] = _WHOLE) -> list[tuple[Variable, ...]]:
    """Of each process the whole variables that all have, each under the name that the first one has for it."""
    every = [[each for each in start.variables if each.kind in kinds] for start in starts]
    names = dict(
        zip((place for place, _ in placed(every[0])), unique_names([each.name for each in every[0]]), strict=True)
    )
    common = common_places(every)
    found = []
    for seen in map(dict, map(placed, every)):
        found.append(tuple(seen[place].as_reported(names[place]) for place in common))
    return found
