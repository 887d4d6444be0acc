"""The training that a certificate measures: two layers on random data, whose steps are one `tf.function`."""

from __future__ import annotations

from typing import Any

__all__ = ["BATCH", "OUTPUTS", "STEPS", "data", "train"]

STEPS = 14
BATCH, OUTPUTS = 64, 10
_INPUTS, _HIDDEN = 64, 128


def data() -> tuple[Any, Any]:
    """Features and targets of all steps: float32 of the shapes [STEPS * BATCH, 64] and [STEPS * BATCH, OUTPUTS]."""
    import numpy as np

    draw = np.random.default_rng(1)
    x = draw.standard_normal((BATCH * STEPS, _INPUTS)).astype(np.float32)
    return x, draw.standard_normal((BATCH * STEPS, OUTPUTS)).astype(np.float32)


def train(strategy: Any, record: Any) -> None:
    """Train; every step records its loss and all variables. The same numbers whenever it runs on one kind of device."""
    import numpy as np
    import tensorflow as tf

    # Without it a GPU adds up in whatever order its threads come, and two equal runs differ.
    tf.config.experimental.enable_op_determinism()
    draw = np.random.default_rng(2)
    x, y = data()
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    with strategy.scope():
        shapes = {"w1": (_INPUTS, _HIDDEN), "w2": (_HIDDEN, OUTPUTS)}
        start = {name: draw.standard_normal(shape).astype(np.float32) / 10 for name, shape in shapes.items()}
        weights = [
            tf.Variable(value, name=name, aggregation=tf.VariableAggregation.SUM) for name, value in start.items()
        ]

    def replica_step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            error = tf.matmul(tf.nn.tanh(tf.matmul(x, weights[0])), weights[1]) - y
            loss = tf.reduce_sum(error**2) / (BATCH * OUTPUTS)
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    @tf.function
    def train_step(x: Any, y: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(replica_step, args=(x, y)), axis=None)

    for batch in strategy.experimental_distribute_dataset(dataset.with_options(options)):
        record.step(loss=train_step(*batch), variables=weights)
