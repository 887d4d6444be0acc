"""Parts of examples that belong together on one device, such as features and a label, and that the run has mixed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from harness.evidence.counters import PartMix

_KEYS_MAX = 4
_LOOSE = 0.1
"""Of the values of a part that come with several of another one: with more, nothing ties the two."""
_MORE = 0.25
"""Of the values of a part, those that may come more often than on one device: by chance, where an epoch has no end."""
_STEPS_MAX = _OWNERS_MAX = 64

_Rows = Sequence[Sequence[int]]


def part_mixes(steps: Sequence[int], given: Sequence[_Rows], own: Sequence[_Rows]) -> Iterator[PartMix]:
    """The pairs of parts that the run has mixed.

    A part is of another example where its value is one that one device has, but with another value of a part that tells
    examples apart. Of neither may many come more often than on one device: a number that each worker counts does.

    Args:
        steps: the number of each call's step.
        given: the rows of each call, part by part a number for each row.
        own: the same of one device.
    """
    parts = range(len(own[0]))
    ours, theirs = ([Counter(row for each in every for row in each[part]) for part in parts] for every in (given, own))
    known = [part for part in parts if (ours[part] - theirs[part]).total() <= _MORE * ours[part].total()]
    for key in sorted(known, key=lambda part: -len(theirs[part]))[:_KEYS_MAX]:
        for other in known:
            if other != key and (owners := _owners(own, key, other)):
                yield from _mixed(steps, given, (len(parts), key, other), owners)


def _owners(own: Sequence[_Rows], key: int, other: int) -> dict[int, int]:
    """The value of `other` that comes with each of `key` on one device; nothing if often several come with one."""
    found: dict[int, int] = {}
    several = set[int]()
    for rows in own:
        for one, value in zip(rows[key], rows[other], strict=True):
            if found.setdefault(one, value) != value:
                several.add(one)
    if len(several) > _LOOSE * len(found):
        return {}
    return {one: value for one, value in found.items() if one not in several}


def _mixed(
    steps: Sequence[int], given: Sequence[_Rows], parts: tuple[int, int, int], owners: dict[int, int]
) -> Iterator[PartMix]:
    _, key, other = parts
    by_step: Counter[int] = Counter()
    for step, rows in zip(steps, given, strict=True):
        by_step[step] += sum(owners.get(one, value) != value for one, value in zip(rows[key], rows[other], strict=True))
    if total := by_step.total():
        wrong = tuple((step, count) for step, count in by_step.items() if count)
        yield PartMix(parts, total, wrong[:_STEPS_MAX], tuple(sorted(owners.items())[:_OWNERS_MAX]))
