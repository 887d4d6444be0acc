"""A custom loop on plain variables, every intermediate value exact in float32, so that the tolerance is zero."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from scenarios.programs import digits

# A power of two: dividing by it is exact. It does not divide by 3, so three replicas also get uneven shares.
GLOBAL_BATCH = 64
EXAMPLES = 256
MARGIN = 2.0


def make(epochs: int = 2, global_batch: int = GLOBAL_BATCH, examples: int = EXAMPLES) -> Callable[[Any, Any], None]:
    """A training program: ten one-against-all linear classifiers with a hinge loss, gradient descent with step 1.

    Why it is exact: pixels are the integers 0-4, targets are +1 and -1, and the gradient of a hinge loss is the sum of
    +x or -x over the examples inside the margin, an integer. With a batch of 64 every weight and every margin is a
    multiple of 1/64 and every average over the batch a multiple of 2**-12, all below 2**12: the 24 bits of float32 hold
    each of them, in any order of summation.

    `global_batch` must be a power of two and divide `examples`.
    """
    return functools.partial(_train, epochs=epochs, global_batch=global_batch, examples=examples)


def _features(examples: int) -> tuple[Any, Any, Any]:
    import numpy as np

    data = digits.load(examples)
    pixels = np.floor(data.images.reshape(examples, 64) * 4).astype(np.float32)
    targets = np.where(data.labels[:, None] == np.arange(digits.CLASSES), 1, -1).astype(np.float32)
    return data.ids, pixels, targets


def _train(strategy: Any, record: Any, *, epochs: int, global_batch: int, examples: int) -> None:
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices(_features(examples)).batch(global_batch)
    distributed = strategy.experimental_distribute_dataset(dataset)
    with strategy.scope():
        # Each replica subtracts its own part of the gradient; SUM makes the variable subtract them all.
        weights = tf.Variable(tf.zeros([64, digits.CLASSES]), name="weights", aggregation=tf.VariableAggregation.SUM)
        bias = tf.Variable(tf.zeros([digits.CLASSES]), name="bias", aggregation=tf.VariableAggregation.SUM)
        iterations = tf.Variable(
            0, dtype=tf.int64, name="iterations", aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA
        )
        seen = tf.Variable(
            0.0,
            name="seen",
            trainable=False,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )

    def replica_step(ids: Any, pixels: Any, targets: Any) -> tuple[Any, Any, Any]:
        with tf.GradientTape() as tape:
            hinge = tf.nn.relu(MARGIN - targets * (pixels @ weights + bias))
            loss = tf.nn.compute_average_loss(tf.reduce_sum(hinge, axis=1), global_batch_size=global_batch)
        gradients = tape.gradient(loss, [weights, bias])
        weights.assign_sub(gradients[0])
        bias.assign_sub(gradients[1])
        iterations.assign_add(1)
        seen.assign_add(tf.cast(tf.size(ids), tf.float32))
        return loss, gradients, ids

    @tf.function
    def train_step(batch: Any) -> tuple[Any, Any, Any]:
        losses, gradients, ids = strategy.run(replica_step, args=batch)
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None), gradients, ids

    for _ in range(epochs):
        for batch in distributed:
            loss, gradients, ids = train_step(batch)
            record.step(
                loss=loss,
                gradients=dict(zip(("weights", "bias"), gradients, strict=True)),
                variables=[weights, bias, iterations, seen],
                examples=ids,
            )
    record.final(variables=[weights, bias, iterations, seen])


def closed_form(epochs: int = 2, global_batch: int = GLOBAL_BATCH, examples: int = EXAMPLES) -> list[tuple[float, Any]]:
    """The (loss, weights) of each step, computed in float64 without TensorFlow: an independent truth."""
    import numpy as np

    _, pixels, targets = (array.astype(np.float64) for array in _features(examples))
    weights, bias = np.zeros((64, digits.CLASSES)), np.zeros(digits.CLASSES)
    steps = []
    for start in list(range(0, examples, global_batch)) * epochs:
        x, y = pixels[start : start + global_batch], targets[start : start + global_batch]
        hinge = np.maximum(MARGIN - y * (x @ weights + bias), 0)
        signed = np.where(hinge > 0, -y, 0) / global_batch
        weights, bias = weights - x.T @ signed, bias - signed.sum(axis=0)
        steps.append((float(hinge.sum() / global_batch), weights))
    return steps


train = make()
