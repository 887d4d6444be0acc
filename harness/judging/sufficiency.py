"""Whether a consistent verdict of a training has compared enough of what its steps leave."""

from __future__ import annotations

from harness.evidence.trace import RunTrace
from harness.judging.conditions import OWN
from harness.judging.per_replica import OF_VARIABLES
from harness.judging.trained_variables import trained_uncompared
from harness.judging.verdict import Verdict

_MOST = 0.5

_NO_VARIABLE = (
    "steps train, and no variable was held against one device ({}): a loss follows from what the steps before have "
    "left, to which one device is set. Report variables=... to record.step, under the same names each time"
)
_ASIDE = (
    "the program trains in a thread of its own, where no step is seen, and has reported no variables. Train in the "
    "main thread, or report variables=... to record.step"
)
_FEW_STEPS = "{} of {} steps cannot be judged by one replica: {}"


def too_little(verdict: Verdict, run: RunTrace, reference: RunTrace) -> str | None:
    """Why a consistent verdict says too little; None if it says enough.

    Args:
        verdict: by a reference that follows the run.
        run: of several replicas.
        reference: of one.
    """
    trains = any(client.start is not None and client.start.variables and client.seen for client in run.clients)
    if trains and (why := _no_variable(verdict)) is not None:
        return _NO_VARIABLE.format(why)
    # Those of a longer training are each judged by itself, and some of them only fill a place.
    steps = () if run.header.are_single else reference.clients[0].seen
    apart = [seen.apart for seen in steps if seen.apart is not None]
    if len(apart) > _MOST * len(steps) and all(each.code != OWN for each in verdict.conditions):
        return _FEW_STEPS.format(len(apart), len(steps), apart[0])
    return trained_uncompared(run, reference)


def trains_aside(verdict: Verdict, run: RunTrace) -> str | None:
    """Why a consistent verdict, by whatever reference, says nothing of what the program trains in a thread of its own.

    None if it does not, or its variables were held against one device.
    """
    aside = any(client.counters.trains_aside for client in run.clients)
    return _ASIDE if aside and _no_variable(verdict) is not None else None


def _no_variable(verdict: Verdict) -> str | None:
    """Why no variable was held against one device; None if some was."""
    law = next((law for law in verdict.judgements if law.law == OF_VARIABLES), None)
    return law.reason if law is not None and law.status == "not_judged" and law.resolution is None else None
