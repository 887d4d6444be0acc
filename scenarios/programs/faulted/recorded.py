"""A training that records its steps for the laws: what they say of a number that a fault has changed."""

from __future__ import annotations

from typing import Any

from harness.recording.recorder import Recorder

_STEPS = 6
_BATCH = 4


def train(strategy: Any, record: Recorder) -> None:
    """Gradient descent on a linear model over integers; every value is exact."""
    import tensorflow as tf

    with strategy.scope():
        weights = tf.Variable([2.0, -4.0], name="weights")
    rows = tf.reshape(tf.range(_STEPS * _BATCH * 2, dtype=tf.float32) % 3 - 1, [_STEPS * _BATCH, 2])
    dataset = tf.data.Dataset.from_tensor_slices(rows).batch(_BATCH)

    def replica_step(rows: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.linalg.matvec(rows, weights) - 1.0) ** 2) / 2
        gradient = tape.gradient(loss, weights)
        total = tf.distribute.get_replica_context().all_reduce("SUM", gradient)
        return loss, total

    def move(variable: Any, gradient: Any) -> None:
        variable.assign_sub(0.25 * gradient)

    @tf.function
    def step(rows: Any) -> Any:
        losses, gradient = strategy.run(replica_step, args=(rows,))
        strategy.extended.update(weights, move, args=(gradient,))
        return strategy.reduce("SUM", losses, axis=None)

    for batch in strategy.experimental_distribute_dataset(dataset):
        record.step(loss=step(batch), variables=[weights])
    record.final(variables=[weights])
