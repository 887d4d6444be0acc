"""Trainings whose reference is made beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def trains(strategy: Any, record: Any) -> None:
    """A layer by Adam, with a sum long enough for rounding to show."""
    import tensorflow as tf

    with strategy.scope():
        weight = tf.Variable(tf.random.stateless_normal([64, 8], [1, 2]), aggregation=tf.VariableAggregation.MEAN)
        second = tf.Variable(tf.zeros([64, 8]), aggregation=tf.VariableAggregation.MEAN)

    def replica(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(tf.tanh(x @ weight))) / 16
        gradient = tape.gradient(loss, weight)
        (gradient,) = tf.distribute.get_replica_context().all_reduce("SUM", [gradient])
        second.assign(0.9 * second + 0.1 * gradient**2)
        weight.assign_sub(0.01 * gradient / (tf.sqrt(second) + 1e-7))
        return loss

    @tf.function
    def step(x: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(replica, args=(x,)), axis=None)

    data = tf.data.Dataset.from_tensor_slices(tf.random.stateless_normal([48, 64], [3, 4])).batch(16)
    for x in strategy.experimental_distribute_dataset(data):
        record.step(loss=step(x), variables=[weight])


def writes(strategy: Any, record: Any) -> None:
    """The same, and leaves a file."""
    Path("written-by-a-training").write_text("so")
    trains(strategy, record)
