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
_FEW_STEPS = "{} of {} steps cannot be judged by one replica: {}"


def too_little(verdict: Verdict, run: RunTrace, reference: RunTrace) -> str | None:
    """Why a consistent verdict says too little; None if it says enough.

    Args:
        verdict: by a reference that follows the run.
        run: of several replicas.
        reference: of one.
    """
    of_variables = next((law for law in verdict.judgements if law.law == OF_VARIABLES), None)
    trains = any(client.start is not None and client.start.variables and client.seen for client in run.clients)
    if trains and of_variables is not None and of_variables.status == "not_judged" and of_variables.resolution is None:
        return _NO_VARIABLE.format(of_variables.reason)
    # Those of a longer training are each judged by itself, and some of them only fill a place.
    steps = () if run.header.are_single else reference.clients[0].seen
    apart = [seen.apart for seen in steps if seen.apart is not None]
    if len(apart) > _MOST * len(steps) and all(each.code != OWN for each in verdict.conditions):
        return _FEW_STEPS.format(len(apart), len(steps), apart[0])
    return trained_uncompared(run, reference)
