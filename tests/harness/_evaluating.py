"""A training that measures itself after each epoch, by the examples or by the replicas."""

from __future__ import annotations

from typing import Any


def evaluating(strategy: Any, record: Any, *, wrong: bool = False) -> None:
    """Three steps on 8 examples each, and after each of them a loss over 5, of which one replica has 3."""
    import numpy as np
    import tensorflow as tf

    numbers = np.random.default_rng(3)
    features, labels = (numbers.normal(size=(8, size)).astype(np.float32) for size in (3, 1))

    def batches(rows: int, size: int) -> Any:
        data = tf.data.Dataset.from_tensor_slices((features[:rows], labels[:rows])).batch(size)
        return strategy.experimental_distribute_dataset(data)

    with strategy.scope():
        weights = tf.Variable(tf.zeros([3, 1]))

    def errors(given: Any, wanted: Any) -> Any:
        return tf.square(tf.matmul(given, weights) - wanted)

    @tf.function
    def trained(batch: Any) -> None:
        def step(given: Any, wanted: Any) -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(errors(given, wanted)) / 8.0
            gradient = tape.gradient(loss, weights)
            total = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, gradient)
            weights.assign_sub(0.1 * total)

        strategy.run(step, args=batch)

    @tf.function
    def measured(batch: Any) -> Any:
        if wrong:
            means = strategy.run(lambda given, wanted: tf.reduce_mean(errors(given, wanted)), args=batch)
            return strategy.reduce(tf.distribute.ReduceOp.MEAN, means, axis=None)
        each = strategy.run(errors, args=batch)
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, each, axis=0)

    for _ in range(3):
        for batch in batches(8, 8):
            trained(batch)
        record.step(variables=[weights])
        for batch in batches(5, 5):
            measured(batch)
