"""What calls of a program have given back to it, in the run and on one device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.evidence.comparing import Comparison, compare
from harness.evidence.metric_means import with_metric_means
from harness.evidence.observed import Observed, history
from harness.evidence.trace import ClientTrace, Evaluated, RunTrace, Seen, Step
from harness.judging.laws.protocol import Case
from harness.judging.tolerance import Bound, DerivedTolerance, ExactTolerance

_Key = tuple[int, str, int]
"""The step, the name of the call, and its number among those of this name after that step."""
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
        return called(self.name, self.place)

    def factor(self, replicas: int) -> float | None:
        """Which multiple of one device's all are: itself, or by the number of replicas; None if they are none."""
        factors = (1.0, float(replicas), 1 / replicas)
        return next((each for each in factors if all(one.compared(each).ratio <= 1 for one in self.numbers)), None)


def called(name: str, place: str) -> str:
    """What of a call is meant, in words."""
    return name if place == "result" else f"{name} at {place}"


def calls_of(run: RunTrace, *, steps: bool) -> _Calls:
    """What its first client was given by steps, or else by evaluations."""
    return _calls(run.clients[0], steps=steps)


def given_numbers(case: Case, *, steps: bool) -> list[GivenNumbers]:
    """All that clients of the run have been given alike, by steps or else by evaluations, as far as one replica was."""
    truth = _computed(case, steps=steps)
    references = [calls_of(each, steps=steps) for each in _references(case)]

    def as_run(calls: _Calls) -> RunTrace:
        found = (
            Step(number, 0.0, metrics=calls[key].values) for number, key in enumerate(truth, start=1) if key in calls
        )
        return RunTrace((ClientTrace(case.run.header, tuple(found)),))

    return _compared(case, truth, as_run(_alike(case.run, steps=steps)), list(map(as_run, references)))


def means_of_evaluations(case: Case) -> list[GivenNumbers]:
    """Means that Keras metrics keep of what replicas add in evaluations; `place` is the metric."""
    truth = _computed(case, steps=False)

    def as_step(number: int, call: Evaluated) -> Step:
        return Step(number, 0.0, seen=Seen(number, 0.0, means=call.means))

    def as_client(client: ClientTrace) -> ClientTrace:
        calls = _calls(client, steps=False)
        found = (as_step(number, calls[key]) for number, key in enumerate(truth, start=1) if key in calls)
        return ClientTrace(client.header, tuple(found))

    traces = [RunTrace(tuple(map(as_client, each.clients))) for each in (*_references(case), case.run)]
    *references, run = with_metric_means(traces)
    return _compared(case, truth, run, references)


def _references(case: Case) -> tuple[RunTrace, ...]:
    """The reference, and those that differ from it by noise."""
    return (case.reference, *(case.tolerance.perturbed if isinstance(case.tolerance, DerivedTolerance) else ()))


def _calls(client: ClientTrace, *, steps: bool) -> _Calls:
    return {(each.after, each.name, each.number): each for each in client.evaluated if each.trains is steps}


def _computed(case: Case, *, steps: bool) -> _Calls:
    """Those of the reference that one replica can compute."""
    return {key: each for key, each in calls_of(case.reference, steps=steps).items() if each.apart is None}


def _alike(run: RunTrace, *, steps: bool) -> _Calls:
    """Those of which all clients were given the same: else each may have a part."""
    first, *others = (_calls(client, steps=steps) for client in run.clients)
    return {
        key: each
        for key, each in first.items()
        if all(key in other and other[key].values == each.values for other in others)
    }


def _compared(case: Case, truth: _Calls, run: RunTrace, references: Sequence[RunTrace]) -> list[GivenNumbers]:
    """The metrics of runs whose steps are these calls, in their order."""
    reference, *perturbed = references
    derived = isinstance(case.tolerance, DerivedTolerance)
    tolerance = DerivedTolerance(reference, perturbed) if derived else ExactTolerance()
    ours, theirs = history(run, "metrics"), history(reference, "metrics")
    found: dict[tuple[str, str], list[GivenNumber]] = {}
    for number, ((step, name, _), _) in enumerate(truth.items(), start=1):
        for place, expected in theirs.get(number, {}).items():
            given = ours.get(number, {}).get(place)
            if given is not None and given.array.shape == expected.array.shape:
                one = GivenNumber(step, given, expected, tolerance.bound("metrics", place, number))
                found.setdefault((name, place), []).append(one)
    return [GivenNumbers(*named, tuple(each)) for named, each in found.items()]
