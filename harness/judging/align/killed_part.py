"""A part of a run that was killed, and held against the steps of the reference that it may have done.

A resumed program does not say where it has resumed. A killed part has no end by which it could be aligned with the
reference, so that it is tried wherever it may have begun.
"""

from __future__ import annotations

import msgspec

from harness.evidence.observed import epoch_ends, per_epoch
from harness.evidence.parts import Part
from harness.evidence.reference import Reference
from harness.evidence.step_range import steps_between
from harness.evidence.trace import ClientTrace, RunTrace
from harness.judging.align.local_values import with_local_values_marked
from harness.judging.laws import Case, judge_all
from harness.judging.tolerance import tolerance_of

__all__ = ["killed_case"]


def killed_case(part: Part, latest: int, reference: Reference) -> tuple[int, Case]:
    """Where a killed part began, and its case.

    Args:
        part: with steps that all clients recorded.
        latest: it began after this step, or after an earlier one. Where no law is broken; or else the fewest findings
            are, and of several such places at the latest.
        reference: of the whole run.
    """
    best, case = latest, _case_from(part, latest, reference)
    # There is no choice at the beginning, so the laws need not be asked.
    fewest = _findings(case) if latest else 0
    for begin in range(latest - 1, -1, -1):
        if not fewest:
            break
        earlier = _case_from(part, begin, reference)
        if (count := _findings(earlier)) < fewest:
            best, case, fewest = begin, earlier, count
    return best, case


def _findings(case: Case) -> int:
    return sum(len(judgement.findings) for judgement in judge_all(case))


def _case_from(part: Part, begin: int, reference: Reference) -> Case:
    truth = reference.trace
    run = steps_between(part.trace, 1, part.common)
    if per_epoch(run, truth):
        ends = [0, *epoch_ends(truth)]
        first, last = ends[min(begin, len(ends) - 1)] + 1, ends[min(begin + part.common, len(ends) - 1)]
    else:
        first, last = begin + 1, begin + part.common
        run = RunTrace(tuple(_shifted(client, begin) for client in run.clients))
    case = Case(run=run, reference=steps_between(truth, first, last), tolerance=tolerance_of(reference))
    return with_local_values_marked(case)


def _shifted(client: ClientTrace, by: int) -> ClientTrace:
    steps = tuple(msgspec.structs.replace(step, index=step.index + by) for step in client.steps)
    return msgspec.structs.replace(client, steps=steps)
