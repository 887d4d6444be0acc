"""Law: what an evaluation gives is what it gives on one device.

An evaluation is a call that runs replicas and takes no gradients. Nothing that is trained shows it, and yet people
choose by it: a mean of replicas' means, of which one has fewer examples, is another number than the mean of all.
"""

from __future__ import annotations

from dataclasses import replace

from harness.evidence.comparing import compare
from harness.evidence.observed import Observed, history
from harness.evidence.trace import ClientTrace, Evaluated, RunTrace, Step
from harness.judging.laws._compare import first_per_value
from harness.judging.laws.protocol import Case, Finding, Judgement, Law, judged, not_judged
from harness.judging.tolerance import Bound, Derived, Exact, Tolerance

__all__ = ["LAW"]

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
        findings, compared, worst = [], 0, 0.0
        for key, number in numbers.items():
            for name, expected in reference.get(number, {}).items():
                observed = run.get(number, {}).get(name)
                if observed is None or observed.array.shape != expected.array.shape:
                    continue
                bound = tolerance.bound("metrics", name, number)
                found = compare(observed, expected, bound)
                if found.ratio > 1 and _is_scaled(observed, expected, bound, case.run.header.replicas):
                    continue
                compared += 1
                worst = max(worst, found.ratio)
                if found.ratio > 1:
                    called = f"{names[key]} after step {key[0]}"
                    text = f"{called}{'' if name == 'result' else f', {name}'}: {found.text}"
                    finding = Finding(self.id, text, step=key[0], observable="evaluation", variable=names[key])
                    findings.append((finding, found.ratio))
        if not compared:
            return not_judged(self.id, "evaluations give nothing that is one number for all replicas")
        return judged(self.id, compared, first_per_value(findings) if findings else (), worst)


def _is_scaled(observed: Observed, expected: Observed, bound: Bound, replicas: int) -> bool:
    """Whether it is one device's times the replicas, or divided by them, as where the program scales what it gets."""
    return any(
        compare(observed, replace(expected, array=expected.array * factor), bound * factor).ratio <= 1
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
    if not isinstance(case.tolerance, Derived):
        return Exact()
    every = (case.tolerance.reference, *case.tolerance.perturbed)
    truth, *perturbed = (_as_run(each, _by_key(each), numbers) for each in every)
    return Derived(truth, perturbed)


LAW = _EvaluationsMatchReference()
