"""columns: outputs, features and moving statistics in unlike units, beside each other in one array."""

from __future__ import annotations

from random import Random
from typing import Any

from tools.sweeping.training import Descent, batches, mine, reported, total, variable


def draw(random: Random) -> dict[str, Any]:
    """The units of inputs and outputs: powers of ten, and what all of a column lies around."""
    return {
        "seed": random.randrange(2**20),
        "inputs": [10.0 ** random.randrange(-3, 6) for _ in range(random.choice([2, 3, 4]))],
        "centred": random.random() < 0.5,
        "price": random.choice([1e3, 1e5]),
        "kind": random.choice(["sgd", "momentum", "adam"]),
        "rate": random.choice([0.02, 0.1]),
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
    inputs: list[float],
    centred: bool,
    price: float,
    kind: str,
    rate: float,
    report: str,
) -> None:
    """Predict a price and a probability from features that are divided by their units, and keep moving statistics.

    The moving mean and the moving mean square are of the features as they come, in their own units.
    """
    import numpy as np
    import tensorflow as tf

    random = np.random.default_rng(seed)
    units = np.array(inputs, dtype="float32")
    scaled = random.normal(size=(batch * steps, len(inputs))).astype("float32")
    if not centred:
        scaled = np.abs(scaled) + np.float32(0.3)
    features = scaled * units
    slopes = random.normal(size=(len(inputs), 2))
    targets = np.stack([price * (1 + 0.1 * np.tanh(scaled @ slopes[:, 0])), scaled @ slopes[:, 1] > 0], axis=1).astype(
        "float32"
    )
    with strategy.scope():
        kernel = variable(0.1 * random.normal(size=(len(inputs), 2)).astype("float32"), "kernel")
        bias = variable(tf.zeros([2]), "bias")
        moving = [variable(tf.zeros([len(inputs)]), name) for name in ("moving_mean", "moving_square")]
        descent = Descent([kernel, bias], kind, rate)

    def output(x: Any) -> Any:
        raw = (x / units) @ kernel + bias
        return tf.stack([price * (1 + raw[:, 0]), tf.nn.sigmoid(raw[:, 1])], axis=1)

    def replica_step(*columns: Any) -> Any:
        ids, x, y = mine(split, columns)
        with tf.GradientTape() as tape:
            outputs = output(x)
            off = (outputs[:, 0] - y[:, 0]) / price
            chance = tf.clip_by_value(outputs[:, 1], 1e-6, 1 - 1e-6)
            entropy = -(y[:, 1] * tf.math.log(chance) + (1 - y[:, 1]) * tf.math.log(1 - chance))
            value = tf.nn.compute_average_loss(off**2 + entropy, global_batch_size=batch)
        gradients = tape.gradient(value, [kernel, bias])
        sums = {"mean": tf.reduce_sum(outputs, axis=0), "off": tf.reduce_sum(tf.abs(outputs - y), axis=0)}
        return value, gradients, [tf.reduce_sum(x, axis=0), tf.reduce_sum(x**2, axis=0)], sums, ids

    @tf.function(reduce_retracing=True)
    def step(columns: Any) -> Any:
        values, gradients, seen, sums, ids = strategy.run(replica_step, args=columns)
        summed = total(strategy, gradients)
        descent.apply(summed)
        for each, batch_sum in zip(moving, total(strategy, seen), strict=True):
            each.assign(0.9 * each + 0.1 * batch_sum / batch)
        return values, total(strategy, values), summed, total(strategy, sums), ids

    variables = [kernel, bias, *moving, *descent.variables]
    for columns in batches(strategy, (np.arange(len(features)), features, targets), batch, split):
        parts, whole, gradients, sums, ids = step(columns)
        record.step(
            loss=reported(report, parts, whole),
            gradients=dict(zip(("kernel", "bias"), gradients, strict=True)),
            variables=variables,
            metrics={name: each / batch for name, each in sums.items()},
            examples=ids,
        )
    record.final(variables=variables, predictions=output(features[:6]))
