"""What the number of replicas means at a line of a script: its reference is told another one there."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from harness.attempts import JudgedAttempt
from harness.evidence.reference import Reference
from harness.evidence.stand_ins import WORKERS, StandIn
from harness.judging.assumptions import ByOne
from harness.judging.laws.begins_alike import LAW as BEGINS
from harness.judging.laws.rows_whole import LAW as OF_ROWS
from harness.judging.laws.steps_match_reference import LAW as OF_STEPS
from harness.judging.laws.variables_match_reference import LAW as OF_VARIABLES
from harness.judging.native_scale import SCALED, times_of
from harness.judging.verdict import Verdict
from simulator import LockstepError, RunFailed

_COMPUTED = {BEGINS.id, OF_VARIABLES.id}
_LINES_MAX = 2
"""Of so many lines all that the number of replicas may mean to them is tried."""


def differs_whatever(attempt: JudgedAttempt, lines: Sequence[StandIn]) -> bool:
    """Whether the run differs from one replica, whatever the number of replicas means at these lines."""
    taken = {each.where: int(each.taken) for each in lines}
    case = attempt.case
    most = {each.where: case.workers if each.what.startswith(WORKERS) else case.replicas for each in lines}
    if attempt.changes is not None or len(taken) > _LINES_MAX:
        return False
    for counts in itertools.product(*((1, most[where]) for where in taken)):
        meant = dict(zip(taken, counts, strict=True))
        with contextlib.suppress(RunFailed):  # by what fails with one replica the script does not mean this
            if meant != taken:
                verdict, reference = _told(attempt, meant)
                if verdict.outcome != "inconsistent" or _makes_up(attempt, verdict, reference):
                    return False
    return True


def differs_by_one(attempt: JudgedAttempt, lines: Sequence[StandIn]) -> ByOne:
    """What one device does otherwise where the number at these lines is its own, which is 1.

    Not whether it is given its examples in other batches: it has those of the run.
    """
    if attempt.changes is not None:
        return ""
    with contextlib.suppress(LockstepError):  # then nothing is known
        verdict, _ = _told(attempt, {each.where: 1 for each in lines})
        broken = {law.law for law in verdict.judgements if law.status == "broken"}
        if broken & _COMPUTED:
            return "computes"
        # In other batches each step would have another number of examples.
        return "ends" if OF_STEPS.id in broken and OF_ROWS.id not in broken else ""
    return ""


def _told(attempt: JudgedAttempt, meant: Mapping[str, int]) -> tuple[Verdict, Reference]:
    return dataclasses.replace(attempt, program=attempt.program.assuming(dict(meant))).by_one_replica({})


def _makes_up(attempt: JudgedAttempt, verdict: Verdict, reference: Reference) -> bool:
    """Whether a variable begins otherwise than on one device, where gradients are as many times too large as there are
    replicas: a rate that is divided by their number makes up for that, and each step has the run's rate.
    """
    apart = any(law.law == BEGINS.id and law.status == "broken" for law in verdict.judgements)
    times = times_of(attempt.first, reference.trace, attempt.case.replicas) if apart else None
    return times is not None and abs(times - attempt.case.replicas) <= SCALED
