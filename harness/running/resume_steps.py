"""Where the parts of a run stand in the training that they are parts of, by what their steps began with.

A part that was started again goes on from some state. Which one it is, the bits of its variables tell: they are those
that an earlier part has left after one of its steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from harness.evidence.parts import Part, Parts
from harness.evidence.reference import Reference
from harness.evidence.steps import EvidenceReader, HeldVariable, RunEvidence, Segment, lead
from harness.judging.align import begins

_MOST = 0.5
"""Of its variables a part has as many at least from the step that it goes on from."""

_State = dict[tuple[str, int], bytes]


def segments_by_state(parts: Parts) -> tuple[Segment, ...]:
    """The steps of a run in parts, each part after the step whose state it began with; after the last one if none is.

    None where a part has left no evidence.
    """
    found: list[Segment] = []
    every = _segments(parts)
    if not all(RunEvidence([each]).is_there for each in every):
        return ()
    for each in every:
        if not found:
            found.append(each)
            continue
        skipped = lead(each.folders, again=True)
        found.append(msgspec.structs.replace(each, after=_went_on(found, each, skipped), skipped=skipped))
    return tuple(found)


def segments_by_counts(parts: Parts, reference: Reference) -> tuple[Segment, ...]:
    """The same by the number of steps that were recorded, which the reference has done from begin to end."""
    found: list[Segment] = []
    for each, begin in zip(_segments(parts), begins(parts, reference), strict=True):
        after = _step_of(found, parts, reference, begin) if found else 0
        skipped = lead(each.folders, again=True) if found else 0
        found.append(msgspec.structs.replace(each, after=after, skipped=skipped))
    return tuple(found)


def undone(parts: Parts, reference: Reference) -> tuple[int, ...]:
    """The numbers of the earlier parts, from 0, that did steps which a later part has done again."""
    told = [part for part in parts.earlier if part.common]
    found = begins(parts, reference)
    return tuple(
        number
        for number, (part, (begin, after)) in enumerate(zip(told, pairwise(found), strict=True))
        if begin + part.furthest > after
    )


def _segments(parts: Parts) -> list[Segment]:
    """Those of all parts, as if each began the training."""
    told: list[Part | Parts] = [*(part for part in parts.earlier if part.common), parts]
    return [Segment(each.evidence, names=each.names) for each in told]


def _step_of(before: Sequence[Segment], parts: Parts, reference: Reference, begin: int) -> int:
    """The step of the whole after which the program had reported so many times."""
    first, seen = lead(before[0].folders), reference.trace.clients[0].seen
    if parts.last.header.at_once:
        return first + begin
    if seen:
        # A part that begins anew has its variables set by steps of its own.
        return first + max(sum(each.after < begin for each in seen), reference.trace.clients[0].lead)
    run, index, reports = RunEvidence(before), first, 0
    while reports < begin and (step := run.step(index + 1)).is_there:
        index, reports = index + 1, reports + step.reports
    return index


def _went_on(before: Sequence[Segment], part: Segment, skipped: int) -> int:
    run, first = RunEvidence(before), RunEvidence([part]).step(skipped + 1)
    last = before[-1].after - before[-1].skipped + EvidenceReader(before[-1].folders[0]).steps
    if not first.is_there:
        return last
    began, begin = _state(first.held), lead(before[0].folders, again=True)
    states = {index: _state_after(run, index) for index in range(begin, last + 1)}
    # What is as the training began with it may not have been restored, such as the slots of an optimizer.
    restored = {key: value for key, value in began.items() if value != states[begin].get(key, value)}
    for held in (restored, began):
        shares = {index: _share(held, state) for index, state in states.items()}
        if (most := max(shares.values())) >= _MOST:
            return max(index for index, share in shares.items() if share == most)
    return last


def _state_after(run: RunEvidence, index: int) -> _State:
    """What variables held after a step, as the program has reported or as the next step began."""
    step = run.step(index)
    if step.reports:
        return _state(step.reported(step.reports - 1))
    return _state(run.step(index + 1).held)


def _state(held: Sequence[tuple[EvidenceReader, HeldVariable]]) -> _State:
    found: _State = {}
    for reader, each in held:
        if each.how == "copies":
            found.setdefault((each.name, each.number), reader.array(each.copies[0]).tobytes())
    return found


def _share(began: _State, left: _State) -> float:
    """Of the variables that both know, how many are the same."""
    both = began.keys() & left.keys()
    return sum(began[key] == left[key] for key in both) / len(both) if both else 0.0
