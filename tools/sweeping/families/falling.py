"""falling: a loss that falls by four orders of magnitude or more in a dozen steps."""

from __future__ import annotations

from random import Random
from typing import Any

from tools.sweeping.training import Descent, batches, mine, reported, total, variable


def draw(random: Random) -> dict[str, Any]:
    """How far the weights are at first, and how much of that each step leaves: 0.4 twelve times is 1.7e-5."""
    return {
        "steps": random.randrange(9, 13),
        "batch": random.choice([12, 16, 17, 24]),
        "seed": random.randrange(2**20),
        "far": random.choice([1.0, 100.0]),
        "left": random.choice([0.2, 0.3, 0.4]),
        "noise": random.choice([0.0, 1e-4]),
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
    far: float,
    left: float,
    noise: float,
    report: str,
) -> None:
    """Least squares; the columns of each batch are orthogonal, so that each step shrinks all errors alike."""
    import numpy as np
    import tensorflow as tf

    random = np.random.default_rng(seed)
    features = np.concatenate([_orthogonal(random.normal(size=(batch, 4))) for _ in range(steps)]).astype("float32")
    true = far * random.normal(size=(4, 1))
    targets = (features @ true + noise * random.normal(size=(batch * steps, 1))).astype("float32")
    with strategy.scope():
        weights = variable(tf.zeros([4, 1]), "weights")
        descent = Descent([weights], "sgd", (1 - left) / 2)

    def replica_step(*columns: Any) -> Any:
        ids, x, y = mine(split, columns)
        with tf.GradientTape() as tape:
            error = x @ weights - y
            value = tf.nn.compute_average_loss(tf.squeeze(error, 1) ** 2, global_batch_size=batch)
        return value, tape.gradient(value, [weights]), tf.reduce_sum(tf.abs(error)), ids

    @tf.function(reduce_retracing=True)
    def step(columns: Any) -> Any:
        values, gradients, absolute, ids = strategy.run(replica_step, args=columns)
        summed = total(strategy, gradients)
        descent.apply(summed)
        return values, total(strategy, values), summed, total(strategy, absolute), ids

    variables = [weights, *descent.variables]
    for columns in batches(strategy, (np.arange(len(features)), features, targets), batch, split):
        parts, whole, gradients, absolute, ids = step(columns)
        record.step(
            loss=reported(report, parts, whole),
            gradients={"weights": gradients[0]},
            variables=variables,
            metrics={"absolute": absolute / batch},
            examples=ids,
        )
    record.final(variables=variables, predictions=features[:6] @ weights)


def _orthogonal(rows: Any) -> Any:
    """Columns of mean square 1 that are orthogonal: the Hessian of the mean squared error is twice the identity."""
    import numpy as np

    return np.linalg.qr(rows)[0] * np.sqrt(len(rows))
