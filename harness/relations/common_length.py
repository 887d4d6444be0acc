"""Runs that were ended early are compared up to where the shortest of them has come."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from harness.evidence.step_graph import StepGraph


def cut_to_shortest(every: Sequence[StepGraph]) -> tuple[StepGraph, ...]:
    """The same with as many calls each, if one was cut, and that as a condition.

    How far a run comes within the time that it gets is chance. One that has ended by itself earlier than another was
    cut calls its function less often, which is a doubt.
    """
    calls = {len(each.marks) for each in every}
    if not any(each.cut for each in every):
        doubts = ("the function is called another number of times than on one device",) if len(calls) > 1 else ()
        return tuple(msgspec.structs.replace(each, doubts=(*each.doubts, *doubts)) for each in every)
    count = min(calls)
    if any(not each.cut and len(each.marks) <= count < max(calls) for each in every):
        doubt = "the function is called another number of times than on one device"
        return tuple(msgspec.structs.replace(each, doubts=(*each.doubts, doubt)) for each in every)
    limit = f"the program goes on as it did until call {count} of its function, where it was no longer looked at"
    return tuple(_up_to(each, count, limit) for each in every)


def _up_to(traced: StepGraph, count: int, limit: str) -> StepGraph:
    changed, reported = traced.marks[count - 1] if count else (len(traced.changed), len(traced.reported or ()))
    return msgspec.structs.replace(
        traced,
        changed=traced.changed[:changed],
        reported=None if traced.reported is None else traced.reported[:reported],
        limits=(*traced.limits, limit),
    )
