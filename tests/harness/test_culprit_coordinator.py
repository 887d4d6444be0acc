"""The line of what a coordinator's workers compute, in processes where no Python of the program's is."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from harness import Program, Verdict, verify
from tests._present import present
from tests.harness._coordinated import asynchronous

_FILE = Path(__file__)


def _coordinated(strategy: Any, record: Any, *, wrong: str = "") -> None:
    """Four closures between two reports, each of which updates; `wrong` under a cluster only."""
    import numpy as np
    import tensorflow as tf

    cluster = isinstance(strategy, tf.distribute.ParameterServerStrategy)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy) if cluster else None
    factor = 2.0 if cluster and wrong == "scaled" else 1.0
    random = np.random.default_rng(3)
    x, y = random.normal(size=(8, 8, 5)).astype("f4"), random.normal(size=(8, 8, 1)).astype("f4")
    with strategy.scope():
        w = tf.Variable(random.normal(size=(5, 1)).astype("f4"), name="w")

    def replica_step(x: Any, y: Any) -> Any:
        rows = factor * tf.tanh(x)  # scaled
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((rows @ w - y) ** 2)
        gradient = tape.gradient(loss, w)
        if cluster and wrong == "clipped":
            gradient = tf.clip_by_norm(gradient, 0.1)  # clipped
        w.assign_sub(0.1 * gradient)
        return loss

    @tf.function
    def step(x: Any, y: Any) -> Any:
        return strategy.run(replica_step, args=(x, y))

    for at in range(0, 8, 4):
        batches = [(tf.constant(x[number]), tf.constant(y[number])) for number in range(at, at + 4)]
        if coordinator is None:
            loss = [step(*each) for each in batches][-1]
        else:
            scheduled = [coordinator.schedule(step, args=each) for each in batches][-1]
            coordinator.join()
            loss = scheduled.fetch()
        record.step(loss=loss, variables=[w])


def _judged(wrong: str) -> Verdict:
    program = Program.of(functools.partial(_coordinated, wrong=wrong))
    return verify(program, "parameter_server-2w1p", explain=True, prove=False)


@pytest.mark.full
@pytest.mark.parametrize(
    ("wrong", "says"),
    [("scaled", "what it gives is 2 times what one device gets"), ("clipped", "one device does not compute this")],
)
def test_a_closure_has_the_line_that_made_it_wrong(wrong: str, says: str) -> None:
    """And what is said of it speaks of no replicas, of which a closure has one."""
    verdict = _judged(wrong)
    assert verdict.outcome == "inconsistent", str(verdict)
    culprit = present(present(verdict.looked).culprit)
    assert _FILE.read_text().splitlines()[culprit.line - 1].endswith(f"# {wrong}")
    assert (culprit.relation, culprit.kind) == (says, None)


@pytest.mark.full
def test_a_right_one_has_none() -> None:
    """The negative control: looked at all the same, nothing is named."""
    verdict = _judged("")
    assert verdict.consistent, str(verdict)
    assert present(verdict.looked).culprit is None


@pytest.mark.full
def test_a_closure_that_gets_its_examples_from_the_workers_data_has_it_too() -> None:
    """Where each worker shuffles for itself, and dropout is drawn."""
    verdict = verify(asynchronous("twice"), "parameter_server-2w1p", explain=True, prove=False)
    assert verdict.outcome == "inconsistent", str(verdict)
    culprit = present(present(verdict.looked).culprit)
    assert "factor * tf.reduce_mean" in culprit.source, str(verdict)
