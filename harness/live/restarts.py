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

    Where nothing tells what it had then, it has lost a counter of its steps that begins as at first, and with that what
    does so too and had changed. Nothing is said where the training begins anew, or has no counter of its steps.

    Args:
        earlier: the same, as it was started before, in that order.
        training: as it was started then.
    """
    begun, first = _held(training, 1), next(iter(digests_of(training.folders)), None)
    for before in reversed(earlier):
        start = _held(before, 1)
        both = [name for name in begun if name in start]
        counted = {int(begun[name]) - int(start[name]) for name in both if _counts(begun[name])} - {0}
        if len(counted) != 1 or (done := counted.pop()) < 0:
            continue
        lost = _lost(before, start, {name: begun[name] for name in both}, done)
        # A checkpoint may count itself, in a variable that the first start had not.
        had = _digest(before, done) if set(start) == set(begun) else None
        if had is None or first is None or not first[0].begin:
            if lost:
                return lost
            continue
        if had == first[0].begin[0]:
            return []
        return _differing(_held(before, done + 1), begun, done) or lost or [_finding("the training", done)]
    return []


def _lost(before: Training, start: _Held, begun: _Held, done: int) -> list[StepFinding]:
    """What a training begins with as at first, and had changed before that, if a counter of steps is of it."""
    steps = [step for step in before.steps if 1 < step <= done + 1]
    held = {step: _held(before, step) for step in steps}
    if not steps:
        return []
    # What is zero again and again, such as a sum of gradients, may be so now.
    changed = (
        name
        for name in held[steps[-1]]
        if all(name in each and not _alike(each[name], start.get(name)) for each in held.values())
    )
    lost = [name for name in changed if name in begun and _alike(begun[name], start.get(name))]

    def counts_steps(name: tuple[str, int]) -> bool:
        counted = {step: int(held[step][name]) - int(start[name]) for step in steps if name in held[step]}
        return all(count == step - 1 for step, count in counted.items())

    is_lost = any(_counts(start[name]) and counts_steps(name) for name in lost)
    return [_finding(name[0], done, name[0]) for name in lost] if is_lost else []


def _alike(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any] | None) -> bool:
    return other is not None and one.tobytes() == other.tobytes()


def _held(training: Training, step: int) -> _Held:
    """What the variables hold when a step begins that was left, of the first replica.

    What each has for itself it has not after a restart: a checkpoint has what they had together, or one of them.
    """
    reader = training.readers()[0][1]
    evidence = reader.step(step) if step in training.steps else None
    held = () if evidence is None else evidence.before
    return {(each.name, each.number): reader.array(each.copies[0]) for each in held if not each.is_local}


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
    names = [name for name in begun if name in had and not _alike(had[name], begun[name])]
    return [_finding(name, done, name) for name, _ in names]


def _finding(what: str, done: int, variable: str | None = None) -> StepFinding:
    text = f"{what} is started again with another state than it had after step {done}"
    return StepFinding("state", "restarts", text, variable)
