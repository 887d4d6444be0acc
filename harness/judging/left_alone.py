"""Whether one device that follows nothing trains what the run has trained, although one that follows it does not.

A program may keep a share of what one device keeps, such as the mean of the replicas' parts where one device has their
sum, and make up for that where it uses it. One replica that is given the share computes something else from it. So an
accusation is held against a training that is left alone, with the program's own examples, before it is made.
"""

from __future__ import annotations

import math

from harness.evidence.arrays import wide
from harness.evidence.observed import Observed, history
from harness.evidence.trace import RunTrace
from harness.evidence.witness_values import completed
from harness.judging.conditions import shown
from harness.judging.tolerance.whole_tensor import length
from harness.judging.verdict import Verdict

_LAWS = {"variables_match_reference", "loss_matches_reference"}
_AS_GOOD = 0.05
"""Of what the run differs by from who follows it: rounding over some steps, and no mistake, differs by so little."""
_SHARE = 0.02
"""As a part of a value: what is so near to a share of another one is one."""


def is_in_question(verdict: Verdict, run: RunTrace) -> bool:
    """Whether what is wrong may follow from a share: the program keeps state, and nothing but numbers is wrong."""
    broken = {law.law for law in verdict.judgements if law.status == "broken"}
    return bool(broken) and broken <= _LAWS and bool(run.clients[0].counters.state)


def made_up_for(verdict: Verdict, run: RunTrace, following: RunTrace, alone: RunTrace, replicas: int) -> str | None:
    """Why a verdict that is inconsistent is not to be believed, None where it is.

    Args:
        verdict: by one replica that follows the run.
        run: what was judged.
        following: that replica.
        alone: one device that follows nothing.
        replicas: of the run.
    """
    found = completed((following, alone, run)).traces
    values = {what: [history(trace, what) for trace in found] for what in ("variables", "loss")}
    right, shares = 0, dict[str, None]()
    for finding in verdict.findings:
        try:
            there = [each[finding.step][finding.variable or "loss"] for each in values[finding.observable or ""]]
        except KeyError:
            return None
        if _is_as_good(*there):
            right += 1
        elif _is_share(there[1], there[2], replicas) and finding.variable is not None:
            shares[finding.variable] = None
        else:
            return None
    if not right:
        return None
    state = shown([repr(name) for name in shares or run.clients[0].counters.state])
    return (
        f"one device that is left alone trains what the run has trained, and differs from it where it is given what "
        f"{state} holds: that may be a share, for which the program makes up elsewhere, and a state is compared as a "
        "whole. Keep in it what one device keeps: divide by the replicas before it is kept, or make it with "
        "aggregation=tf.VariableAggregation.SUM where replicas add their parts to it"
    )


def _is_as_good(following: Observed, alone: Observed, run: Observed) -> bool:
    """Whether a value is that of one device left alone, but for a small part of what it is accused of."""
    if following.problem or alone.problem or run.problem or following.array.shape != alone.array.shape:
        return False
    accused, free = (length(abs(wide(run.array) - wide(other.array))) for other in (following, alone))
    return math.isfinite(accused) and free <= _AS_GOOD * accused


def _is_share(alone: Observed, run: Observed, replicas: int) -> bool:
    if alone.problem or run.problem or alone.array.shape != run.array.shape:
        return False
    held, size = wide(run.array), length(abs(wide(alone.array)))
    return bool(size) and any(
        length(abs(times * held - wide(alone.array))) <= _SHARE * size for times in (replicas, 1 / replicas)
    )
