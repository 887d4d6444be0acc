"""A training whose replicas change gradients before the mean of these is taken; or the loss, by what is no sum."""

from __future__ import annotations

import functools
from typing import Any

from harness.subject.program import Program


def changed_gradients(change: str) -> Program:
    """Six steps of a linear regression; `change` is one of `CHANGES`."""
    return Program.of(functools.partial(_changed_gradients, change=change))


def _changed_gradients(strategy: Any, record: Any, *, change: str) -> None:
    import numpy as np
    import tensorflow as tf

    random = np.random.RandomState(3)
    x = random.randn(96, 5).astype("f4")
    data = tf.data.Dataset.from_tensor_slices((x, x @ random.randn(5, 1).astype("f4"))).batch(16)
    with strategy.scope():
        w = tf.Variable(tf.zeros([5, 1]), name="w")

    def replica_step(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            losses = (x @ w - y) ** 2
            loss = tf.reduce_max(losses) if change == "hardest" else tf.reduce_mean(losses)
        gradient = tape.gradient(loss, w)
        gradient = CHANGES[change](tf, gradient)
        w.assign_sub(0.05 * tf.distribute.get_replica_context().all_reduce("MEAN", gradient))

    step = tf.function(lambda batch: strategy.run(replica_step, args=batch))
    for batch in strategy.experimental_distribute_dataset(data):
        step(batch)
        record.step(variables=[w])


CHANGES = {
    "signs": lambda tf, gradient: tf.sign(gradient),
    "values": lambda tf, gradient: tf.clip_by_value(gradient, -0.5, 0.5),
    "norm": lambda tf, gradient: tf.clip_by_norm(gradient, 0.5),
    "rounded": lambda tf, gradient: tf.round(gradient * 4) / 4,
    "largest": lambda tf, gradient: tf.where(tf.abs(gradient) < tf.reduce_max(tf.abs(gradient)), 0.0, gradient),
    "hardest": lambda tf, gradient: gradient,
    "nothing": lambda tf, gradient: gradient,
}
