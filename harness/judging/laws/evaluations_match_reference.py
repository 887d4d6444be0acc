"""Law: what an evaluation gives is what it gives on one device.

An evaluation is a call that runs replicas and takes no gradients. Nothing that is trained shows it, and yet people
choose by it: a mean of replicas' means, of which one has fewer examples, is another number than the mean of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.evidence.comparing import compare
from harness.evidence.observed import Observed, history
from harness.evidence.trace import ClientTrace, Evaluated, RunTrace, Step
from harness.judging.laws._compare import first_per_value
from harness.judging.laws.protocol import Case, Finding, Judgement, Law, judged, not_judged
from harness.judging.tolerance import Bound, DerivedTolerance, ExactTolerance, Tolerance

_Key = tuple[int, int]


class _EvaluationsMatchReference(Law):
    id = "evaluations_match_reference"
    order = 95
    suffices = False

    def concerns(self, case: Case) -> bool:
        return case.follows and case.interruption is None and bool(_by_key(case.reference))

    def judge(self, case: Case) -> Judgement:
        """Compare what all clients of the run have been given alike with what one replica was given."""
        truth = {key: each for key, each in _by_key(case.reference).items() if each.apart is None}
        if not truth:
            why = next(each.apart for each in _by_key(case.reference).values())
            return not_judged(self.id, f"no evaluation can be computed by one replica: {why}")
        names = {key: each.name for key, each in truth.items()}
        numbers = {key: number for number, key in enumerate(truth, start=1)}
        tolerance = _tolerance(case, numbers)
        run = history(_as_run(case.run, _alike(case.run), numbers), "metrics")
        reference = history(_as_run(case.reference, truth, numbers), "metrics")
        found: dict[tuple[str, str], list[tuple[int, Observed, Observed, Bound]]] = {}
        for key, number in numbers.items():
            for name, expected in reference.get(number, {}).items():
                given = run.get(number, {}).get(name)
                if given is not None and given.array.shape == expected.array.shape:
                    bound = tolerance.bound("metrics", name, number)
                    found.setdefault((names[key], name), []).append((key[0], given, expected, bound))
        scaled = {each for each, values in found.items() if _are_scaled(values, case.run.header.replicas)}
        findings, worst = [], 0.0
        for (name, value), values in found.items():
            for step, observed, expected, bound in () if (name, value) in scaled else values:
                difference = compare(observed, expected, bound)
                worst = max(worst, difference.ratio)
                if difference.ratio > 1:
                    called = f"{name} after step {step}{'' if value == 'result' else f', {value}'}"
                    text = f"{called}: {difference.text}"
                    finding = Finding(self.id, text, step=step, observable="evaluation", variable=name)
                    findings.append((finding, difference.ratio))
        recorded, left_out = (sum(len(found[each]) for each in those) for those in (found, scaled))
        if recorded == left_out:
            nothing = "evaluations give nothing that is one number for all replicas"
            return not_judged(self.id, "the program scales what evaluations give back" if scaled else nothing)
        told = first_per_value(sorted(findings, key=lambda each: each[0].step or 0))
        return judged(self.id, recorded - left_out, told, worst, recorded=recorded)


def _are_scaled(values: Sequence[tuple[int, Observed, Observed, Bound]], replicas: int) -> bool:
    """Whether all are one device's times the replicas, or divided by them, as where a program scales what it gets."""
    if all(compare(observed, expected, bound).ratio <= 1 for _, observed, expected, bound in values):
        return False
    return any(
        all(
            compare(observed, replace(expected, array=expected.array * factor), bound * factor).ratio <= 1
            for _, observed, expected, bound in values
        )
        for factor in (replicas, 1 / replicas)
    )


def _by_key(run: RunTrace) -> dict[_Key, Evaluated]:
    return {(each.after, each.number): each for each in run.clients[0].evaluated}


def _alike(run: RunTrace) -> dict[_Key, Evaluated]:
    """Those of which all clients were given the same: else each may have a part."""
    first, *others = ({(each.after, each.number): each for each in client.evaluated} for client in run.clients)
    return {
        key: each
        for key, each in first.items()
        if all(key in other and other[key].values == each.values for other in others)
    }


def _as_run(run: RunTrace, evaluated: dict[_Key, Evaluated], numbers: dict[_Key, int]) -> RunTrace:
    """Evaluations as steps of a run that report what they were given as metrics."""
    steps = tuple(
        Step(index=number, at=0.0, metrics=evaluated[key].values) for key, number in numbers.items() if key in evaluated
    )
    return RunTrace((ClientTrace(run.header, steps),))


def _tolerance(case: Case, numbers: dict[_Key, int]) -> Tolerance:
    if not isinstance(case.tolerance, DerivedTolerance):
        return ExactTolerance()
    every = (case.tolerance.reference, *case.tolerance.perturbed)
    truth, *perturbed = (_as_run(each, _by_key(each), numbers) for each in every)
    return DerivedTolerance(truth, perturbed)


LAW = _EvaluationsMatchReference()
