"""What several processes begin with, variable by variable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from harness.evidence.observed import unique_names
from harness.evidence.trace import SeenVariable, Start, Variable

__all__ = ["begun"]


_WHOLE = ("copies", "plain", "mirrored", "statistics")
"""Kinds of variables of which each process has the whole, or should."""

_Form = tuple[str, str, tuple[int, ...]]


def begun(starts: Sequence[Start], kinds: Sequence[str] = _WHOLE) -> list[tuple[Variable, ...]]:
    """Of each process the whole variables that all have, each under the name that the first one has for it.

    Several may share a name. Those of one dtype and shape are paired in the order in which they were made, where all
    have as many; else nobody knows which is which, and they are left out.
    """
    every = [[each for each in start.variables if each.kind in kinds] for start in starts]
    counts = [Counter(map(_form, seen)) for seen in every]
    common = {form for form, count in counts[0].items() if all(each[form] == count for each in counts)}
    names = dict[tuple[_Form, int], str]()
    for name, (place, _) in zip(unique_names([each.name for each in every[0]]), _placed(every[0]), strict=True):
        names[place] = name
    found = []
    for seen in every:
        placed = {place: each for place, each in _placed(seen) if place[0] in common}
        found.append(tuple(placed[place].as_reported(name) for place, name in names.items() if place in placed))
    return found


def _form(seen: SeenVariable) -> _Form:
    return seen.name, seen.copies[0].dtype, seen.copies[0].shape


def _placed(seen: Sequence[SeenVariable]) -> Iterator[tuple[tuple[_Form, int], SeenVariable]]:
    """Each with its form, and how many of that form came before it."""
    before = Counter[_Form]()
    for each in seen:
        form = _form(each)
        yield (form, before[form]), each
        before[form] += 1
