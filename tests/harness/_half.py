"""A classifier with layers in 16 bits, a factor on its gradients, or a z-loss that each replica averages."""

from __future__ import annotations

from typing import Any

import numpy as np

_BATCH, _STEPS = 32, 3
_SHAPES = ((32, 64), (64, 64), (64, 8))


def half(
    dtype: str, *, head: str | None = None, factor: float = 1.0, local: bool = False, coefficient: float = 0.1
) -> Any:
    """A program; what is wrong is so on several replicas only.

    Args:
        dtype: of the layers.
        head: the dtype of the last one, if it has one of its own.
        factor: on reduced gradients; of the head alone, if it has a dtype of its own.
        local: whether each replica takes the mean of the z-loss over its own examples, all of which are added up.
        coefficient: of the z-loss.
    """

    def train(strategy: Any, record: Any) -> None:
        import tensorflow as tf

        random = np.random.default_rng(1)
        x = random.normal(size=(_BATCH * _STEPS, _SHAPES[0][0])).astype("float32")
        y = (x @ random.normal(size=(x.shape[1], _SHAPES[-1][1]))).argmax(axis=1).astype("int32")
        first = [(random.normal(size=shape) * (1.5 / shape[0] ** 0.5)).astype("float32") for shape in _SHAPES]
        with strategy.scope():
            weights = [tf.Variable(value, name=f"w{k}") for k, value in enumerate(first)]
        data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((x, y)).batch(_BATCH))

        def replica_step(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                hidden = tf.cast(x, dtype)
                for weight in weights[:-1]:
                    hidden = tf.nn.relu(hidden @ tf.cast(weight, dtype))
                logits = tf.cast(tf.cast(hidden, head or dtype) @ tf.cast(weights[-1], head or dtype), tf.float32)
                squares = tf.square(tf.reduce_logsumexp(logits, axis=1))
                z = tf.reduce_mean(squares) if local else tf.reduce_sum(squares) / _BATCH
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
                loss = tf.reduce_sum(losses) / _BATCH + coefficient * z
            found = tape.gradient(loss, weights)
            wrong = (weights[-1:] if head else weights) if strategy.num_replicas_in_sync > 1 else []
            for weight, gradient in zip(
                weights, tf.distribute.get_replica_context().all_reduce("SUM", found), strict=True
            ):
                scale = factor if any(weight is each for each in wrong) else 1.0
                weight.assign_sub(0.05 * scale * gradient)

        step = tf.function(lambda x, y: strategy.run(replica_step, args=(x, y)))
        for x, y in data:
            step(x, y)
            record.step(variables=weights)

    return train
