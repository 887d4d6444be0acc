"""Whether a run that was started again draws what it had drawn before, since nothing has kept the state of that."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from harness.evidence.steps import RunEvidence, RunStep, Segment
from harness.judging.conditions import REPEATED_DRAWS, Condition

_LEAST = 16
"""Bytes that draws have to have in common, so that it is no accident."""


def repeated_draws(segments: Sequence[Segment]) -> Condition | None:
    """That the first step of a later part draws what a step of the training had drawn; None if it does not.

    What is the same at several steps is meant to be the same, such as a noise that is drawn once.

    Args:
        segments: the parts of the run, where they stand in the training.
    """
    for number, later in enumerate(segments[1:], start=1):
        before, now = RunEvidence(segments[:number]), RunEvidence(segments[: number + 1]).step(later.after + 1)
        alike = [index for index in range(1, later.after + 1) if _draw_alike(before.step(index), now)]
        if len(alike) == 1:
            drawn = ", ".join(dict.fromkeys(operation for operation, _ in now.draws()))
            text = (
                f"that step {now.index} draws again what step {alike[0]} had drawn ({drawn}): the run was started "
                "again, and no checkpoint has kept the state of what draws"
            )
            return Condition(REPEATED_DRAWS, text)
    return None


def _draw_alike(one: RunStep, other: RunStep) -> bool:
    size = 0
    for first, second in itertools.zip_longest(one.draws(), other.draws()):
        if first is None or first != second:
            return False
        size += len(first[1])
    return size >= _LEAST
