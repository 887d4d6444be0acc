"""Whether a training that is started again goes on from what it had before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from harness.evidence.deposit import Training
from harness.evidence.digests import digests_of
from harness.evidence.loaded_names import names_of_built
from harness.evidence.saved_states import BITS, SavedState, called, saved_states, sum_of
from harness.evidence.trace import is_statistics
from harness.live.composition import seen_of
from harness.live.findings import StepFinding

if TYPE_CHECKING:
    import numpy as np

_Held = Mapping[tuple[str, int], "np.ndarray[Any, Any]"]
_Names = Sequence[tuple[str, int]]

_LOST = "{} is started again with another state than it had after step {}"
_LEFT_OUT = (
    "{} is started again with what a checkpoint had after step {}, and had gone on from there with something else"
)
_UNCLEAR = "whether that is meant is not judged"


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
    restarts = (_Restart(before, training) for before in reversed(earlier))
    return next((found for each in restarts if (found := each.findings) is not None), [])


def unclear(earlier: Sequence[Training], training: Training) -> list[str]:
    """What it begins with that may be meant, in sentences; the arguments are those of `resumed_apart`."""
    restarts = (_Restart(before, training) for before in reversed(earlier))
    return next((said for each in restarts if (said := list(each.unclear)) or each.findings is not None), [])


class _Restart:
    """A training, held against an earlier start of it."""

    def __init__(self, before: Training, training: Training) -> None:
        self._before = before
        self._start = _held(before, 1)
        self._begun = _as_built(_held(training, 1), self._start)
        self._first = next(iter(digests_of(training.folders)), None)
        self._number = training.number

    @cached_property
    def findings(self) -> list[StepFinding] | None:
        """What it has lost; None where nothing tells that it goes on from this start."""
        start, begun, unlike = self._start, self._begun, self._unlike
        counted = {int(begun[name]) - int(start[name]) for name in begun if name in start and _counts(begun[name])}
        if len(counted - {0}) > 1 and (found := self._nearest) is not None:
            return found
        if len(counted - {0}) != 1 or (done := max(counted, key=abs)) < 0:
            return None
        held = {step: _held(self._before, step) for step in self._before.steps if 1 < step <= done + 1}
        reset = list(_reset(held, start, begun))
        statistics = [name for name in reset if is_statistics(name[0])]
        if any(names == [] for _, names in unlike):
            left_out = [
                StepFinding("state", "restarts", _LEFT_OUT.format(*each), each[0])
                for each in self._left_out(trained=True)
            ]
            return [*_findings(statistics, done), *left_out]
        saved = min((names for state, names in unlike if state.step == done and names is not None), key=len, default=[])
        # A checkpoint may count itself, in a variable that the first start had not.
        had = _digest(self._before, done + 1) if set(start) == set(begun) else None
        if had is not None and self._first is not None and self._first[0].begin:
            if had == self._first[0].begin[0]:
                return _findings(statistics, done)
            named = saved or _differing(_held(self._before, done + 1), begun) or reset
            return _findings([*named, *statistics], done) or [_finding("the training", done)]
        # What a program sets before it goes on is a number, such as its rate.
        lost = [name for name in saved if begun[name].shape]
        if any(_counts(start[name]) and _counts_steps(name, held, start) for name in reset):
            lost += reset
        return _findings([*lost, *statistics], done) if lost or statistics else None

    @property
    def unclear(self) -> Iterator[str]:
        """What may be meant of what it begins with, in sentences."""
        now, then = f"start {self._number + 1}", f"start {self._before.number + 1}"
        for variable, step in self._left_out(trained=False):
            had = f"{now} begins with {variable} as a checkpoint had it after step {step}"
            yield f"{had}, and {then} went on from there with something else: {_UNCLEAR}"
        for step, names in self._nearly:
            for name in names:
                had = f"{now} begins with {name[0]} = {self._begun[name]:g} as {then} did"
                yield f"{had}, and a checkpoint had something else after step {step}: {_UNCLEAR}"

    @property
    def _nearly(self) -> Iterator[tuple[int, _Names]]:
        """The checkpoint that had all that it begins with but numbers, such as a rate, that are as at first."""
        for state, names in self._unlike:
            numbers = [name for name in names or () if self._is_number(name) and name in self._start]
            if numbers and len(numbers) == len(names or ()) and all(map(self._is_as_at_first, numbers)):
                yield state.step, numbers

    def _is_number(self, name: tuple[str, int]) -> bool:
        value = self._begun[name]
        return value.dtype.kind == "f" and not value.shape and float(value) % 1 != 0

    def _is_as_at_first(self, name: tuple[str, int]) -> bool:
        return _alike(self._begun[name], self._start.get(name))

    def _left_out(self, *, trained: bool) -> Iterator[tuple[str, int]]:
        """What has the value that it was saved with, though the start before then went on with another one.

        With which one is known if it has made another step; else it is what it has changed after each checkpoint.

        Args:
            trained: whether variables that have gradients are looked for, or others.
        """
        saved = [state for state, names in self._unlike if names == []][-1:]
        for state in saved:
            every = [each.unlike(self._went_on[each.step]) for each, _ in self._unlike if each.step in self._went_on]
            own = [state.unlike(self._went_on[state.step])] if state.step in self._went_on else every
            changed = set.intersection(*own) if own else set[str]()
            known = (name for name, number in self._begun if called(name, number) in changed)
            yield from ((name, state.step) for name in known if (name in self._trained) == trained)

    @cached_property
    def _trained(self) -> set[str]:
        reader, steps = self._before.readers()[0][1], self._before.steps[:1]
        return {each.name for step in steps for each in seen_of(reader, step).gradients}

    @cached_property
    def _states(self) -> list[SavedState]:
        return list(saved_states(next(iter(self._before.folders))))

    @cached_property
    def _went_on(self) -> dict[int, SavedState]:
        return {each.step: each for each in self._states if each.goes_on}

    @cached_property
    def _unlike(self) -> list[tuple[SavedState, list[tuple[str, int]] | None]]:
        """What each checkpoint had otherwise; None if no array is known that both have."""
        sums = {name: sum_of(value) for name, value in self._begun.items() if value.itemsize in BITS}
        found: list[tuple[SavedState, list[tuple[str, int]] | None]] = []
        for state in (each for each in self._states if not each.goes_on):
            known = {name: each for name, each in sums.items() if called(*name) in state.sums}
            unlike = [name for name, each in known.items() if each != state.sums[called(*name)]]
            found.append((state, unlike if any(self._begun[name].shape for name in known) else None))
        return found

    @property
    def _nearest(self) -> list[StepFinding] | None:
        """What differs from the checkpoint that is most like it; None if nothing that had changed is as there."""
        known = [(len(names), state.step, names) for state, names in self._unlike if names is not None]
        if not known:
            return None
        _, step, names = min(known)
        arrays = [name for name in self._begun if self._begun[name].shape]
        taken = (name for name in arrays if name not in names and name in self._start)
        if all(map(self._is_as_at_first, taken)):
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


def _as_built(loaded: _Held, built: _Held) -> _Held:
    """What a model that is loaded holds, under the names of one that is built."""
    forms = ([(name, (value.dtype, value.shape)) for (name, _), value in each.items()] for each in (loaded, built))
    names = names_of_built(*forms)
    return {(names.get(name, name), number): value for (name, number), value in loaded.items()}


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
    return StepFinding("state", "restarts", _LOST.format(what, done), variable)
