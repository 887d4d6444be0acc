"""Runs that differ from one device where that says nothing: by what nobody has seen, or by a clock."""

from __future__ import annotations

import itertools

from harness.evidence.steps import RunEvidence
from harness.judging.verdict import Verdict

OUTSIDE = (
    "the run differs from one device, and its closures compute, read or draw outside of strategy.run, where it is not "
    "known what a worker had. Call strategy.run in what is scheduled, with the examples as its arguments"
)
_COUNTS = {"steps_match_reference", "examples_match_reference", "examples_in_turn"}
_UNSTEADY = (
    "which steps are done, or which examples they have, follows from a clock or from random numbers without a seed: "
    "one device does otherwise another time"
)
_STEADY = "Give the program a number of steps, and seeds, for the time of the verification"


def is_outside(verdict: Verdict, evidence: RunEvidence) -> bool:
    """Whether what differs may follow from what a coordinator's closures have had outside of `Strategy.run`."""
    broken = {law.law for law in verdict.judgements if law.status == "broken"}
    steps = itertools.takewhile(lambda step: step.is_there, map(evidence.step, itertools.count(1)))
    of_workers = (step for step in steps if step.worker is not None)
    return bool(broken) and "updates_counted" not in broken and not all(step.is_given for step in of_workers)


def differs_by_counts(verdict: Verdict) -> bool:
    """Whether only the number of steps is wrong, or which examples they have."""
    return {law.law for law in verdict.judgements if law.status == "broken"} <= _COUNTS


def unsteady(where: str) -> str:
    """Why a run is not judged of which one device does other steps another time; `where` is the first such place."""
    return f"{_UNSTEADY} ({where}). {_STEADY}"
