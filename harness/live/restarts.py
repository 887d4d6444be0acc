"""Whether a training that is started again begins with what it had at the step that its own counter says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness.evidence.deposit import Training
from harness.evidence.digests import Digest, digests_of
from harness.live.findings import StepFinding

if TYPE_CHECKING:
    import numpy as np

_Held = Mapping[tuple[str, int], "np.ndarray[Any, Any]"]


def resumed_apart(earlier: Sequence[Training], training: Training) -> list[StepFinding]:
    """What a training begins with that had something else after as many steps when it was started before.

    Nothing is said where it begins anew, has no counter of its steps, or has gone on from a step without a digest.

    Args:
        earlier: the same, as it was started before, in that order.
        training: as it was started then.
    """
    begun, first = _held(training, 1), next(iter(digests_of(training.folders)), None)
    for before in reversed(earlier):
        start = _held(before, 1)
        if first is None or not begun or set(start) != set(begun):
            continue
        counted = {int(begun[name]) - int(start[name]) for name in begun if _counts(begun[name])} - {0}
        if len(counted) != 1 or (done := counted.pop()) < 0:
            continue
        had = _digest(before, done)
        if had is None or not first[0].begin:
            continue
        return [] if had == first[0].begin[0] else _differing(_held(before, done + 1), begun, done)
    return []


def _held(training: Training, step: int) -> _Held:
    """What the variables hold when a step begins that was left, of the first replica."""
    reader = training.readers()[0][1]
    evidence = reader.step(step) if step in training.steps else None
    held = () if evidence is None else evidence.before
    return {(each.name, each.number): reader.array(each.copies[0]) for each in held}


def _counts(value: np.ndarray[Any, Any]) -> bool:
    return value.dtype.kind in "iu" and not value.shape


def _digest(training: Training, done: int) -> int | None:
    """That of the first replica after so many steps, where as many variables were digested as at the first."""
    kinds: list[int] = []
    for found in digests_of(training.folders):
        each: Digest = found[0]
        kinds.append(each.kind)
        if len(set(kinds)) > 1:
            return None
        if each.step == done + 1 and each.begin:
            return each.begin[0]
        if each.step == done and each.end:
            return each.end[0]
    return None


def _differing(had: _Held, begun: _Held, done: int) -> list[StepFinding]:
    where = f"is started again with another state than it had after step {done}"
    names = [name for name in begun if name in had and had[name].tobytes() != begun[name].tobytes()]
    found = [StepFinding("state", "restarts", f"{name} {where}", name) for name, _ in names]
    return found or [StepFinding("state", "restarts", f"the training {where}")]
