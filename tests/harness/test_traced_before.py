"""A step that the program traces before it calls it is not seen: what it draws is not taken for a mistake."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from harness import Program, verify


def _train(strategy: Any, record: Any, *, drops: bool, wrong: bool = False) -> None:
    """Four steps of a linear regression, of which the program first asks how many operations it has."""
    import numpy as np
    import tensorflow as tf

    x = np.random.default_rng(0).normal(size=(32, 8)).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((x, x.sum(axis=1, keepdims=True))).batch(8)
    with strategy.scope():
        w = tf.Variable(tf.zeros([8, 1]), name="w")
    size = 8.0 / (strategy.num_replicas_in_sync if wrong else 1)

    def replica(x: Any, y: Any) -> None:
        rows = tf.nn.dropout(x, 0.5) if drops else x
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.matmul(rows, w) - y) ** 2) / size
        gradient = tf.distribute.get_replica_context().all_reduce("sum", tape.gradient(loss, w))
        w.assign_sub(0.05 * gradient)

    @tf.function
    def step(x: Any, y: Any) -> None:
        strategy.run(replica, args=(x, y))

    for number, (x, y) in enumerate(strategy.experimental_distribute_dataset(data)):
        if not number:
            assert step.get_concrete_function(x, y).graph.get_operations()
        step(x, y)
        record.step(variables=[w])


@pytest.mark.full
@pytest.mark.parametrize(
    ("drops", "wrong", "outcome"),
    [(True, False, "abstained"), (False, False, "consistent"), (False, True, "inconsistent")],
)
def test_a_step_that_nobody_sees_is_judged_unless_it_draws(drops: bool, wrong: bool, outcome: str) -> None:
    """One device runs beside it, and draws numbers of its own: other seeds show that it does."""
    program = Program.of(functools.partial(_train, drops=drops, wrong=wrong))
    verdict = verify(program, "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)
    assert ("draws random numbers" in str(verdict.abstained)) == (outcome == "abstained")
