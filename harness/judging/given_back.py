"""What calls of a program have given back to it, in the run and on one device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from harness.evidence.comparing import Comparison, compare
from harness.evidence.observed import Observed, history
from harness.evidence.trace import ClientTrace, Evaluated, RunTrace, Step
from harness.judging.laws.protocol import Case
from harness.judging.tolerance import Bound, DerivedTolerance, ExactTolerance, Tolerance

_Key = tuple[int, int]
_Calls = Mapping[_Key, Evaluated]


@dataclass(frozen=True)
class GivenNumber:
    """What one call gave, in the run and on one device, and how far apart that may be; `step` is the one before it."""

    step: int
    observed: Observed
    expected: Observed
    bound: Bound

    def compared(self, factor: float = 1.0) -> Comparison:
        """With so many times what one device gives."""
        expected = replace(self.expected, array=self.expected.array * factor) if factor != 1.0 else self.expected
        return compare(self.observed, expected, self.bound * factor)


@dataclass(frozen=True)
class GivenNumbers:
    """What all calls gave of one name: `name` is what the program calls it, `place` where in the result it was."""

    name: str
    place: str
    numbers: tuple[GivenNumber, ...]

    @property
    def called(self) -> str:
        """Both, in words."""
        return self.name if self.place == "result" else f"{self.name} at {self.place}"

    def factor(self, replicas: int) -> float | None:
        """Which multiple of one device's all are: itself, or by the number of replicas; None if they are none."""
        factors = (1.0, float(replicas), 1 / replicas)
        return next((each for each in factors if all(one.compared(each).ratio <= 1 for one in self.numbers)), None)


def calls_of(run: RunTrace, *, steps: bool) -> dict[_Key, Evaluated]:
    """What its first client was given by steps, or else by evaluations; by the step before it and its number."""
    return _calls(run.clients[0], steps=steps)


def given_numbers(case: Case, *, steps: bool) -> list[GivenNumbers]:
    """All that clients of the run have been given alike, by steps or else by evaluations, as far as one replica was."""
    truth = {key: each for key, each in calls_of(case.reference, steps=steps).items() if each.apart is None}
    numbers = {key: number for number, key in enumerate(truth, start=1)}
    tolerance = _tolerance(case, numbers, steps=steps)
    run = history(_as_run(case.run, _alike(case.run, steps=steps), numbers), "metrics")
    reference = history(_as_run(case.reference, truth, numbers), "metrics")
    found: dict[tuple[str, str], list[GivenNumber]] = {}
    for key, number in numbers.items():
        for place, expected in reference.get(number, {}).items():
            given = run.get(number, {}).get(place)
            if given is not None and given.array.shape == expected.array.shape:
                bound = tolerance.bound("metrics", place, number)
                one = GivenNumber(key[0], given, expected, bound)
                found.setdefault((truth[key].name, place), []).append(one)
    return [GivenNumbers(*named, tuple(each)) for named, each in found.items()]


def _calls(client: ClientTrace, *, steps: bool) -> dict[_Key, Evaluated]:
    return {(each.after, each.number): each for each in client.evaluated if each.trains is steps}


def _alike(run: RunTrace, *, steps: bool) -> dict[_Key, Evaluated]:
    """Those of which all clients were given the same: else each may have a part."""
    first, *others = (_calls(client, steps=steps) for client in run.clients)
    return {
        key: each
        for key, each in first.items()
        if all(key in other and other[key].values == each.values for other in others)
    }


def _as_run(run: RunTrace, calls: _Calls, numbers: Mapping[_Key, int]) -> RunTrace:
    """Calls as steps of a run that report what they were given as metrics."""
    found = tuple(
        Step(index=number, at=0.0, metrics=calls[key].values) for key, number in numbers.items() if key in calls
    )
    return RunTrace((ClientTrace(run.header, found),))


def _tolerance(case: Case, numbers: Mapping[_Key, int], *, steps: bool) -> Tolerance:
    if not isinstance(case.tolerance, DerivedTolerance):
        return ExactTolerance()
    every = (case.tolerance.reference, *case.tolerance.perturbed)
    truth, *perturbed = (_as_run(each, calls_of(each, steps=steps), numbers) for each in every)
    return DerivedTolerance(truth, perturbed)
