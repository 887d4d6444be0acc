"""What a step draws outside of its replicas is the same in who follows it, however many of them draw inside."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from harness import verify


def _train(strategy: Any, record: Any, compiled: bool, seed: int | None = 3) -> None:
    """Three updates a step: noise for the weights, which all replicas get, and for each example, which they draw.

    Workers have the same noise for the weights by one seed for all of them.
    """
    import numpy as np
    import tensorflow as tf

    if seed is not None:
        tf.random.set_seed(seed)
    inputs = np.random.default_rng(1).normal(size=(32, 4)).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices((inputs, inputs @ np.array([1, 2, 3, 4], np.float32))).batch(16)
    with strategy.scope():
        weights = tf.Variable(tf.ones([4]), aggregation=tf.VariableAggregation.SUM)

    def replica(x: Any, y: Any, noise: Any) -> Any:
        x += tf.random.normal(tf.shape(x), stddev=0.05)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.linalg.matvec(x, weights + noise) - y) ** 2) / 16
        weights.assign_sub(0.02 * tape.gradient(loss, weights))
        return loss

    def step(x: Any, y: Any) -> Any:
        losses = [strategy.run(replica, args=(x, y, tf.random.normal([4], stddev=0.1))) for _ in range(3)]
        return tf.add_n([strategy.reduce("SUM", loss, axis=None) for loss in losses])

    call = tf.function(step) if compiled else step
    for x, y in strategy.experimental_distribute_dataset(data):
        record.step(loss=call(x, y), variables=[weights])


@pytest.mark.full
@pytest.mark.parametrize(
    ("strategy", "compiled"), [("mirrored-2", True), ("mirrored-2", False), ("multi_worker-2", True)]
)
def test_draws_inside_count_no_seeds_of_those_outside(strategy: str, compiled: bool) -> None:
    """TensorFlow gives the next draw without a seed the next number, and two replicas take two of them."""
    verdict = verify(partial(_train, compiled=compiled), strategy, explain=False, prove=False)
    assert verdict.consistent, str(verdict)


@pytest.mark.full
def test_workers_that_draw_noise_for_the_weights_each_for_itself_are_wrong() -> None:
    """The negative control: without a seed each worker of a cluster trains with another one."""
    verdict = verify(partial(_train, compiled=True, seed=None), "multi_worker-2", explain=False, prove=False)
    assert verdict.outcome == "inconsistent", str(verdict)
