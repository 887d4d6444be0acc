"""Whether two runs of the same program recorded the same, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

import msgspec

from harness.laws._compare import differing_bits, place
from harness.observed import OBSERVABLES, items
from harness.trace import Array, ClientTrace, Final, Step, Value

__all__ = ["first_difference"]


def first_difference(one: ClientTrace, other: ClientTrace) -> str | None:
    """The first place at which two traces differ, with both values; None if they are the same but for the clock."""
    if len(one.steps) != len(other.steps):
        return f"one recorded {len(one.steps)} steps, the other {len(other.steps)}"
    for ours, theirs in zip([*one.steps, one.final], [*other.steps, other.final], strict=True):
        if ours is None or theirs is None:
            if ours is not theirs:
                return "only one called record.final"
        elif _timeless(ours) != _timeless(theirs):
            return next(_differences(ours, theirs), f"{_when(ours)}, other values were recorded")
    return None


def _timeless(record: Step | Final) -> Step | Final:
    return msgspec.structs.replace(record, at=0.0)


def _when(record: Step | Final) -> str:
    return f"step {record.index}" if isinstance(record, Step) else "at the end"


def _differences(ours: Step | Final, theirs: Step | Final) -> Iterator[str]:
    step = ours.index if isinstance(ours, Step) else None
    if isinstance(ours, Step) and isinstance(theirs, Step) and ours.examples != theirs.examples:
        ids = [sorted(id_ for part in record.examples or () for id_ in part) for record in (ours, theirs)]
        first = next((pair for pair in zip_longest(*ids) if pair[0] != pair[1]), None)
        yield f"{place(step, 'examples')}: " + ("in another order" if first is None else f"{first[0]} and {first[1]}")
    for observable in OBSERVABLES:
        mine, others = items(ours, observable) or {}, items(theirs, observable) or {}
        for name in dict.fromkeys([*mine, *others]):
            if name not in mine or name not in others:
                yield f"{place(step, observable, name)}: recorded in one run only"
            elif mine[name] != others[name]:
                yield from _arrays(step, observable, name, _parts(mine[name]), _parts(others[name]))


def _parts(item: object) -> tuple[Array, ...]:
    return item.parts if isinstance(item, Value) else getattr(item, "copies", ())


def _arrays(
    step: int | None, observable: str, name: str, ours: tuple[Array, ...], theirs: tuple[Array, ...]
) -> Iterator[str]:
    if len(ours) != len(theirs):
        yield f"{place(step, observable, name)}: in {len(ours)} and {len(theirs)} parts"
        return
    for one, other in zip(ours, theirs, strict=True):
        if (found := differing_bits(one, other)) is not None:
            yield f"{place(step, observable, name, found.index)}: {found.text}"
