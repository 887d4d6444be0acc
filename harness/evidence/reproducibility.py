"""Whether two runs of the same program recorded the same, bit for bit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import zip_longest

import msgspec

from harness.evidence.comparing import differing_bits, place
from harness.evidence.observed import OBSERVABLES, items
from harness.evidence.trace import Array, ClientTrace, Final, RunTrace, Step, Value
from harness.evidence.witness_values import completed

ROUNDING_SHARE_MAX = 2.0**-7
"""What roundings of sums can change where two runs differ first, as a share of the largest element; in float16 too."""


class RecordDifference(msgspec.Struct, frozen=True):
    """Where two runs differ first: the place with both values, and by how much of the array's largest element.

    `share` is infinite for what no rounding can explain: other examples, steps or shapes.
    """

    text: str
    share: float = math.inf


def first_difference(one: ClientTrace, other: ClientTrace) -> RecordDifference | None:
    """The first place at which two traces differ; None if they are the same but for the clock."""
    one, other = _completed(one, other)
    if len(one.steps) != len(other.steps):
        return RecordDifference(f"one recorded {len(one.steps)} steps, the other {len(other.steps)}")
    for ours, theirs in zip([*one.steps, one.final], [*other.steps, other.final], strict=True):
        if ours is None or theirs is None:
            if ours is not theirs:
                return RecordDifference("only one called record.final")
        elif _timeless(ours) != _timeless(theirs):
            return next(_differences(ours, theirs), RecordDifference(f"{_when(ours)}, other values were recorded"))
    return None


def _completed(one: ClientTrace, other: ClientTrace) -> tuple[ClientTrace, ClientTrace]:
    """Both with what the harness saw by itself of what neither reported."""
    both = completed([RunTrace((one,)), RunTrace((other,))])
    return both.traces[0].clients[0], both.traces[1].clients[0]


def _timeless(record: Step | Final) -> Step | Final:
    if isinstance(record, Step):
        return msgspec.structs.replace(record, at=0.0, seen=None)
    return msgspec.structs.replace(record, at=0.0)


def _when(record: Step | Final) -> str:
    return f"step {record.index}" if isinstance(record, Step) else "at the end"


def _differences(ours: Step | Final, theirs: Step | Final) -> Iterator[RecordDifference]:
    step = ours.index if isinstance(ours, Step) else None
    if isinstance(ours, Step) and isinstance(theirs, Step) and ours.examples != theirs.examples:
        ids = [sorted(id_ for part in record.examples or () for id_ in part) for record in (ours, theirs)]
        first = next((pair for pair in zip_longest(*ids) if pair[0] != pair[1]), None)
        shown = "in another order" if first is None else f"{first[0]} and {first[1]}"
        yield RecordDifference(f"{place(step, 'examples')}: {shown}")
    for observable in OBSERVABLES:
        mine, others = items(ours, observable) or {}, items(theirs, observable) or {}
        for name in dict.fromkeys([*mine, *others]):
            if name not in mine or name not in others:
                yield RecordDifference(f"{place(step, observable, name)}: recorded in one run only")
            elif mine[name] != others[name]:
                yield from _arrays(step, observable, name, _parts(mine[name]), _parts(others[name]))


def _parts(item: object) -> tuple[Array, ...]:
    return item.parts if isinstance(item, Value) else getattr(item, "copies", ())


def _arrays(
    step: int | None, observable: str, name: str, ours: tuple[Array, ...], theirs: tuple[Array, ...]
) -> Iterator[RecordDifference]:
    if len(ours) != len(theirs):
        yield RecordDifference(f"{place(step, observable, name)}: in {len(ours)} and {len(theirs)} parts")
        return
    for one, other in zip(ours, theirs, strict=True):
        if (found := differing_bits(one, other)) is not None:
            yield RecordDifference(f"{place(step, observable, name, found.index)}: {found.text}", _share(one, other))


def _share(one: Array, other: Array) -> float:
    """The largest difference of two arrays of floating numbers, as a share of their largest element."""
    import numpy as np

    a, b = one.numpy(), other.numpy()
    if a.dtype.kind not in "fc" or a.shape != b.shape or a.dtype != b.dtype:
        return math.inf
    with np.errstate(invalid="ignore", over="ignore"):
        apart, size = np.max(np.abs(a - b)), max(np.max(np.abs(a)), np.max(np.abs(b)))
        share = float(apart / size) if size else math.inf
    return share if math.isfinite(share) else math.inf
