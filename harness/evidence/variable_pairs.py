"""Which of the variables that several processes have are the same one: names alone do not tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from harness.evidence.trace import SeenVariable

_Form = tuple[str, str, tuple[int, ...]]
Place = tuple[_Form, int]
"""The name, dtype and shape of a variable, and how many of these came before it."""


def common_places(every: Sequence[Sequence[SeenVariable]]) -> tuple[Place, ...]:
    """The places of those that all have, in the order of the first process.

    Several may share a name. Those of one dtype and shape are paired in the order in which they were made, where all
    have as many; else nobody knows which is which, and they are left out.
    """
    counts = [Counter(form for (form, _), _ in placed(seen)) for seen in every]
    common = {form for form, count in counts[0].items() if all(each[form] == count for each in counts)}
    return tuple(place for place, _ in placed(every[0]) if place[0] in common)


def placed(seen: Sequence[SeenVariable]) -> Iterator[tuple[Place, SeenVariable]]:
    """Each with its place."""
    before = Counter[_Form]()
    for each in seen:
        form = each.name, each.copies[0].dtype, each.copies[0].shape
        yield (form, before[form]), each
        before[form] += 1
