"""What calls of a program have given back to it, in the run and on one device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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

    return _compared(case, _numbered(truth), as_run(_alike(case.run, steps=steps)), list(map(as_run, references)))


def incomparable(case: Case) -> Iterator[str]:
    """In words, what of calls cannot be held against one device, though both runs have them."""
    own, truth = case.run.clients[0], case.reference.clients[0]
    cut = own.counters.cut
    # A script is ended in the middle of what it does after its last step.
    ours, theirs = (
        Counter(each.name for each in client.evaluated if not each.trains and (cut is None or each.after < cut))
        for client in (own, truth)
    )
    for name in ours:
        if theirs[name] not in (0, ours[name]):
            yield f"{name} is called {_times(ours[name])} where one device calls it {_times(theirs[name])}"
    yield from dict.fromkeys(_own_numbers(case.run))
    found: dict[str, None] = {}
    for steps in (True, False):
        given = _alike(case.run, steps=steps)
        for key, expected in _computed(case, steps=steps).items():
            found |= dict.fromkeys(_other_shapes(given[key], expected) if key in given else ())
    yield from found


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _own_numbers(run: RunTrace) -> Iterator[str]:
    """Of evaluations that give each task numbers of its own, and after which nothing is reduced."""
    alike, first = _alike(run, steps=False), run.clients[0]
    of_all = [_calls(client, steps=False) for client in run.clients]
    for key, each in of_all[0].items():
        reduced = any(other.reduces and other.after == each.after and other.at > each.at for other in first.evaluated)
        if each.values and key not in alike and all(key in calls for calls in of_all) and not reduced:
            yield f"{each.name} gives each task numbers of its own"


def _other_shapes(given: Evaluated, expected: Evaluated) -> Iterator[str]:
    """Of results with the same places: parts of one result may be in several."""
    ours, theirs = ({value.name: value.parts[0].shape for value in each.values} for each in (given, expected))
    if ours.keys() == theirs.keys():
        for place, shape in ours.items():
            if shape != theirs[place]:
                what = called(given.name, place)
                yield f"{what} gives back an array of shape {list(shape)} where one device gets {list(theirs[place])}"


def means_of_evaluations(case: Case, *, of_calls: bool = False) -> list[GivenNumbers]:
    """Means that Keras metrics keep of what replicas add in evaluations; `place` is the metric.

    `of_calls` is as of `with_metric_means`.
    """
    truth = _computed(case, steps=False)

    def as_step(number: int, call: Evaluated) -> Step:
        return Step(number, 0.0, seen=Seen(number, 0.0, means=call.means))

    def as_client(client: ClientTrace) -> ClientTrace:
        calls = _calls(client, steps=False)
        found = (as_step(number, calls[key]) for number, key in enumerate(truth, start=1) if key in calls)
        return ClientTrace(client.header, tuple(found))

    traces = [RunTrace(tuple(map(as_client, each.clients))) for each in (*_references(case), case.run)]
    *references, run = with_metric_means(traces, of_calls=of_calls)
    return _compared(case, _numbered(truth), run, references)


def means_of_steps(case: Case, *, of_calls: bool = False) -> list[GivenNumbers]:
    """Means that Keras metrics keep of what replicas add in steps; `name` is the metric.

    `of_calls` is as of `with_metric_means`.
    """
    *references, run = with_metric_means([*_references(case), case.run], of_calls=of_calls)
    steps = {step.index: (step.index, "") for step in case.reference.clients[0].steps if step.index not in case.apart}
    return [replace(each, name=each.place, place="result") for each in _compared(case, steps, run, references)]


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


def _numbered(calls: _Calls) -> dict[int, tuple[int, str]]:
    """The step and the name of each, by its number among all, from 1."""
    return {number: (step, name) for number, (step, name, _) in enumerate(calls, start=1)}


def _compared(
    case: Case, called: Mapping[int, tuple[int, str]], run: RunTrace, references: Sequence[RunTrace]
) -> list[GivenNumbers]:
    """The metrics of runs at these steps of theirs, which may be calls: of what step they are, and of what name."""
    reference, *perturbed = references
    derived = isinstance(case.tolerance, DerivedTolerance)
    tolerance = DerivedTolerance(reference, perturbed) if derived else ExactTolerance()
    ours, theirs = history(run, "metrics"), history(reference, "metrics")
    found: dict[tuple[str, str], list[GivenNumber]] = {}
    for number, (step, name) in called.items():
        for place, expected in theirs.get(number, {}).items():
            given = ours.get(number, {}).get(place)
            if given is not None and given.array.shape == expected.array.shape:
                one = GivenNumber(step, given, expected, tolerance.bound("metrics", place, number))
                found.setdefault((name, place), []).append(one)
    return [GivenNumbers(*named, tuple(each)) for named, each in found.items()]
