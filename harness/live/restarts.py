"""Whether a training that is started again begins with what it had at the step that its own counter says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness.evidence.deposit import Training
from harness.evidence.digests import digests_of
from harness.evidence.saved_states import BITS, SavedState, called, saved_states, sum_of
from harness.evidence.trace import is_statistics
from harness.live.findings import StepFinding

if TYPE_CHECKING:
    import numpy as np

_Held = Mapping[tuple[str, int], "np.ndarray[Any, Any]"]


def resumed_apart(earlier: Sequence[Training], training: Training) -> list[StepFinding]:
    """What a training begins with that had something else after as many steps when it was started before.

    It may begin with what any checkpoint had. Where nothing tells what it had after so many steps, it has lost a
    counter of its steps that begins as at first, and with that what does so too and had changed. Of statistics, which
    nothing else tells of, this needs no counter. Of counters that differ, as of two optimizers, nobody knows which one
    counts steps: it is held against the checkpoint that is most like it. Nothing is said where it begins anew.

    Args:
        earlier: the same, as it was started before, in that order.
        training: as it was started then.
    """
    begun, first = _held(training, 1), next(iter(digests_of(training.folders)), None)
    sums = {name: sum_of(value) for name, value in begun.items() if value.itemsize in BITS}
    for before in reversed(earlier):
        start = _held(before, 1)
        both = [name for name in begun if name in start]
        counted = {int(begun[name]) - int(start[name]) for name in both if _counts(begun[name])} - {0}
        unlike = [(each.step, _unlike(each, begun, sums)) for each in saved_states(next(iter(before.folders)))]
        if len(counted) > 1 and (found := _nearest(unlike, start, begun)) is not None:
            return found
        if len(counted) != 1 or (done := counted.pop()) < 0:
            continue
        held = {step: _held(before, step) for step in before.steps if 1 < step <= done + 1}
        reset = list(_reset(held, start, begun))
        statistics = [name for name in reset if is_statistics(name[0])]
        if any(names == [] for _, names in unlike):
            return _findings(statistics, done)
        saved = min((names for step, names in unlike if step == done and names is not None), key=len, default=[])
        # A checkpoint may count itself, in a variable that the first start had not.
        had = _digest(before, done + 1) if set(start) == set(begun) else None
        if had is not None and first is not None and first[0].begin:
            if had == first[0].begin[0]:
                return _findings(statistics, done)
            named = saved or _differing(_held(before, done + 1), begun) or reset
            return _findings([*named, *statistics], done) or [_finding("the training", done)]
        # What a program sets before it goes on is a number, such as its rate.
        lost = [name for name in saved if begun[name].shape]
        if any(_counts(start[name]) and _counts_steps(name, held, start) for name in reset):
            lost += reset
        if lost or statistics:
            return _findings([*lost, *statistics], done)
    return []


def _nearest(
    unlike: Sequence[tuple[int, list[tuple[str, int]] | None]], start: _Held, begun: _Held
) -> list[StepFinding] | None:
    """What differs from the checkpoint that is most like it; None if nothing that had changed is as there."""
    known = [(len(names), step, names) for step, names in unlike if names is not None]
    if not known:
        return None
    _, step, names = min(known)
    arrays = [name for name in begun if begun[name].shape]
    taken = (name for name in arrays if name not in names and name in start and not _alike(begun[name], start[name]))
    if next(taken, None) is None:
        return None
    return _findings([name for name in arrays if name in names], step)


def _reset(held: Mapping[int, _Held], start: _Held, begun: _Held) -> Iterator[tuple[str, int]]:
    """What is as it was at first, and was not in any step that was left in between.

    What is zero again and again, such as a sum of gradients, may be so now.
    """
    for name in held[max(held)] if held else ():
        changed = all(name in each and not _alike(each[name], start.get(name)) for each in held.values())
        if changed and name in begun and _alike(begun[name], start.get(name)):
            yield name


def _counts_steps(name: tuple[str, int], held: Mapping[int, _Held], start: _Held) -> bool:
    counted = {step: int(each[name]) - int(start[name]) for step, each in held.items() if name in each}
    return all(count == step - 1 for step, count in counted.items())


def _unlike(saved: SavedState, begun: _Held, sums: Mapping[tuple[str, int], int]) -> list[tuple[str, int]] | None:
    """What a checkpoint had otherwise; None if nothing is known that both have.

    A model that is loaded calls its variables otherwise than one that is built. Then they are known by their values.
    """
    known = {name: saved.sums[called(*name)] for name in sums if called(*name) in saved.sums}
    unlike = [name for name, each in known.items() if each != sums[name]]
    if not any(begun[name].shape for name in known):
        renamed = [name for name in sums if begun[name].shape and not is_statistics(name[0])]
        values = {*saved.sums.values()}
        lost = [name for name in renamed if sums[name] not in values]
        if len(lost) == len(renamed):  # it is another model, or was restored from elsewhere
            return None
        unlike += lost
    return unlike if known else None


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


def _digest(training: Training, step: int) -> int | None:
    """That of the first replica before a step, where as many variables were digested as at the first.

    What the step before has left tells little: a program may count it later.
    """
    kind = None
    for found, *_ in digests_of(training.folders):
        kind = kind or found.kind
        if found.kind != kind:
            return None
        if found.step == step:
            return next(iter(found.begin), None)
    return None


def _differing(had: _Held, begun: _Held) -> list[tuple[str, int]]:
    return [name for name in begun if name in had and not _alike(had[name], begun[name])]


def _findings(names: Iterable[tuple[str, int]], done: int) -> list[StepFinding]:
    return [_finding(name, done, name) for name, _ in dict.fromkeys(names)]


def _finding(what: str, done: int, variable: str | None = None) -> StepFinding:
    text = f"{what} is started again with another state than it had after step {done}"
    return StepFinding("state", "restarts", text, variable)
