"""crossing: metrics that cross zero, and differences of numbers that are nearly equal."""

from __future__ import annotations

from random import Random
from typing import Any

from tools.sweeping.training import Descent, batches, mine, reported, total, variable


def draw(random: Random) -> dict[str, Any]:
    """Whether inputs are centred in each batch, so that their mean is all rounding."""
    return {
        "seed": random.randrange(2**20),
        "centred": random.random() < 0.5,
        "kind": random.choice(["sgd", "momentum", "adam"]),
        "rate": random.choice([0.02, 0.1, 0.4]),
        "offset": random.choice([0.0, 0.05]),
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
    centred: bool,
    kind: str,
    rate: float,
    offset: float,
    report: str,
) -> None:
    """Fit a line; report the mean signed error, a covariance, how the loss changes, and the mean of the inputs."""
    import numpy as np
    import tensorflow as tf

    random = np.random.default_rng(seed)
    features = random.normal(size=(steps, batch, 3))
    if centred:
        features -= features.mean(axis=1, keepdims=True)
    features = features.reshape(-1, 3).astype("float32")
    noise = 0.3 * random.normal(size=(batch * steps, 1)) + offset
    targets = (features @ random.normal(size=(3, 1)) + noise).astype("float32")
    with strategy.scope():
        weights, bias = variable(tf.zeros([3, 1]), "weights"), variable(tf.zeros([1]), "bias")
        descent = Descent([weights, bias], kind, rate)

    def replica_step(*columns: Any) -> Any:
        ids, x, y = mine(split, columns)
        with tf.GradientTape() as tape:
            error = x @ weights + bias - y
            value = tf.nn.compute_average_loss(tf.squeeze(error, 1) ** 2, global_batch_size=batch)
        sums = {
            "signed": tf.reduce_sum(error),
            "covariance": tf.reduce_sum(error * x[:, :1]),
            "input": tf.reduce_sum(x, axis=0),
        }
        return value, tape.gradient(value, [weights, bias]), sums, ids

    @tf.function(reduce_retracing=True)
    def step(columns: Any) -> Any:
        values, gradients, sums, ids = strategy.run(replica_step, args=columns)
        summed = total(strategy, gradients)
        descent.apply(summed)
        return values, total(strategy, values), summed, total(strategy, sums), ids

    variables = [weights, bias, *descent.variables]
    before = 1.0
    for columns in batches(strategy, (np.arange(len(features)), features, targets), batch, split):
        parts, whole, gradients, sums, ids = step(columns)
        metrics: dict[str, Any] = {name: each / batch for name, each in sums.items()}
        metrics["signed_float"] = float(sums["signed"]) / batch
        metrics["change"] = float(whole) - before
        before = float(whole)
        record.step(
            loss=reported(report, parts, whole),
            gradients=dict(zip(("weights", "bias"), gradients, strict=True)),
            variables=variables,
            metrics=metrics,
            examples=ids,
        )
    record.final(variables=variables, predictions=features[:6] @ weights + bias)
