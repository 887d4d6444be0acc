"""A step that the program has traced before it calls it, or its graph, is judged; in another thread none is seen."""

from __future__ import annotations

import concurrent.futures
import functools
from typing import Any

import pytest

from harness import Program, verify


def _train(strategy: Any, record: Any, *, drops: bool, wrong: bool, how: str) -> None:
    """Four steps of a linear regression: by the function, by its graph, or in a thread of the program's own."""
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

    called: Any = step
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        for number, (x, y) in enumerate(strategy.experimental_distribute_dataset(data)):
            if how != "thread" and not number:
                graph = step.get_concrete_function(x, y)
                called = graph if how == "graph" else step
            if how == "thread":
                pool.submit(called, x, y).result()
            else:
                called(x, y)
            record.step(variables=[w])


@pytest.mark.full
@pytest.mark.parametrize(
    ("how", "drops", "wrong", "outcome"),
    [
        ("function", True, False, "consistent"),
        ("function", True, True, "inconsistent"),
        ("graph", True, False, "consistent"),
        ("graph", True, True, "inconsistent"),
        ("thread", True, False, "abstained"),
        ("thread", False, False, "consistent"),
        ("thread", False, True, "inconsistent"),
    ],
)
def test_a_step_is_judged_unless_nobody_sees_what_it_draws(how: str, drops: bool, wrong: bool, outcome: str) -> None:
    """What is seen of a step says what it drew. Of another one device draws other numbers, as other seeds show."""
    program = Program.of(functools.partial(_train, drops=drops, wrong=wrong, how=how))
    verdict = verify(program, "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)
    assert ("draws random numbers" in str(verdict.abstained)) == (outcome == "abstained")
