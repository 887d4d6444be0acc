"""Values that each worker reports for itself, in runs of several workers with one device each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness.evidence.trace import RunTrace
from harness.judging.align.local_values import with_local_values_marked
from harness.judging.laws import Case, all_laws
from harness.judging.tolerance import DerivedTolerance, ExactTolerance
from tests.harness._traces import client, step


def _judged(observable: str, *by_worker: tuple[float, ...], truth: tuple[float, ...]) -> str:
    """The status of the observable's law, with what each worker reported at each step."""

    def given(value: float) -> dict[str, Any]:
        array = np.float32(value)
        return {"loss": array} if observable == "loss" else {observable: {"x": array}}

    def trace(task: str, values: tuple[float, ...], workers: int) -> Any:
        steps = [step(number, **given(value)) for number, value in enumerate(values, start=1)]
        return client(*steps, task=task, clients=workers, replicas=workers)

    run = RunTrace(tuple(trace(f"worker:{k}", values, len(by_worker)) for k, values in enumerate(by_worker)))
    case = with_local_values_marked(Case(run, RunTrace((trace("local:0", truth, 1),)), ExactTolerance()))
    law = next(law for law in all_laws() if law.id.startswith(f"{observable}_match"))
    return law.judge(case).status


@pytest.mark.parametrize("observable", ["loss", "gradients", "metrics"])
def test_parts_that_add_up_are_parts(observable: str) -> None:
    """Also where they happen to be equal, as the loss of a model that starts from zeros is for every example."""
    assert _judged(observable, (0.25, 0.5), (0.75, 0.25), truth=(1.0, 0.75)) == "held"
    assert _judged(observable, (0.5, 0.5), (0.5, 0.25), truth=(1.0, 0.75)) == "held"


@pytest.mark.parametrize("observable", ["loss", "gradients", "metrics"])
def test_a_value_that_is_too_small_on_all_workers_is_no_part(observable: str) -> None:
    """A loss that is divided once too often is the same on all workers at every step."""
    assert _judged(observable, (0.5, 0.375), (0.5, 0.375), truth=(1.0, 0.75)) == "broken"
    assert _judged(observable, (0.5, 0.5), (0.25, 0.25), truth=(1.0, 0.75)) == "broken"


@pytest.mark.parametrize(("second", "parts"), [(-0.51882845, True), (-0.5188, False)])
def test_parts_that_nearly_cancel_keep_their_roundings(second: float, parts: bool) -> None:
    """A sum of a fiftieth of its parts is off by more than its own size would allow for."""

    def trace(task: str, value: float, workers: int) -> Any:
        done = step(1, gradients={"x": np.float32(value)})
        return client(done, task=task, clients=workers, replicas=workers)

    run = RunTrace((trace("worker:0", 0.5293095, 2), trace("worker:1", second, 2)))
    truth = RunTrace((trace("local:0", 0.010480928, 1),))
    case = with_local_values_marked(Case(run, truth, DerivedTolerance(truth, ())))
    marked = [value.per_replica for each in case.run.clients for value in each.steps[0].gradients or ()]
    assert marked == [parts, parts]
