"""inputs: metrics that depend on inputs only, as Python and NumPy numbers computed from float32 sums."""

from __future__ import annotations

from random import Random
from typing import Any

from tools.sweeping.training import Descent, batches, mine, reported, total, variable


def draw(random: Random) -> dict[str, Any]:
    """The unit of the inputs, and what they lie around."""
    return {
        "seed": random.randrange(2**20),
        "unit": 10.0 ** random.randrange(-2, 4),
        "around": random.choice([0.0, 1.0, 30.0]),
        "dtype": random.choice(["float32", "float32", "float64"]),
        "report": random.choice(["parts", "sum", "float"]),
    }


def train(
    strategy: Any,
    record: Any,
    *,
    batch: int,
    steps: int,
    split: str,
    seed: int,
    unit: float,
    around: float,
    dtype: str,
    report: str,
) -> None:
    """Fit a line, and report of each batch's inputs what a program would log: means, a norm, a share, their history."""
    import numpy as np
    import tensorflow as tf

    random = np.random.default_rng(seed)
    features = (unit * (around + random.normal(size=(batch * steps, 3)))).astype(dtype)
    targets = (features.sum(axis=1) / unit).astype(dtype)
    with strategy.scope():
        weights = variable(tf.zeros([3], dtype), "weights")
        descent = Descent([weights], "sgd", 0.01 / (1 + around**2))

    def replica_step(*columns: Any) -> Any:
        ids, x, y = mine(split, columns)
        with tf.GradientTape() as tape:
            error = tf.linalg.matvec(x / unit, weights) - y
            value = tf.nn.compute_average_loss(error**2, global_batch_size=batch)
        sums = [tf.reduce_sum(x), tf.reduce_sum(x**2), tf.reduce_sum(x, axis=0), tf.reduce_sum(tf.abs(y))]
        return value, tape.gradient(value, [weights]), sums, ids

    @tf.function(reduce_retracing=True)
    def step(columns: Any) -> Any:
        values, gradients, sums, ids = strategy.run(replica_step, args=columns)
        summed = total(strategy, gradients)
        descent.apply(summed)
        return values, total(strategy, values), summed, total(strategy, sums), ids

    history: list[float] = []
    for columns in batches(strategy, (np.arange(len(features)), features, targets), batch, split):
        parts, whole, gradients, (plain, squared, by_column, absolute), ids = step(columns)
        history.append(float(plain) / batch)
        metrics = {
            "mean": float(plain) / batch,
            "norm": float(squared) ** 0.5,
            "columns": by_column.numpy().astype(np.float64) / batch,
            "share": float(absolute) / (1.0 + float(absolute)),
            "history": sum(history) / len(history),
            "mean_tf": plain / batch,
        }
        record.step(
            loss=reported(report, parts, whole),
            gradients={"weights": gradients[0]},
            variables=[weights, *descent.variables],
            metrics=metrics,
            examples=ids,
        )
