"""loop: custom loops on plain variables, with clipping, accumulation and weight decay."""

from __future__ import annotations

from random import Random
from typing import Any

from tools.sweeping.training import Descent, batches, mine, reported, total, variable


def draw(random: Random) -> dict[str, Any]:
    """A perceptron of one hidden layer, how it is trained, and where it is updated."""
    return {
        "seed": random.randrange(2**20),
        "width": random.choice([1, 3, 8, 20]),
        "activation": random.choice(["relu", "tanh", "softplus"]),
        "loss": random.choice(["squared", "huber", "logistic"]),
        "kind": random.choice(["sgd", "momentum", "adam"]),
        "rate": random.choice([0.01, 0.05]),
        "clip": random.choice([None, None, 0.1]),
        "decay": random.choice([0.0, 0.0, 0.01]),
        "penalty": random.choice([0.0, 0.0, 0.01]),
        "accumulate": random.choice([1, 1, 2, 3]),
        "where": random.choice(["inside", "outside"]),
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
    width: int,
    activation: str,
    loss: str,
    kind: str,
    rate: float,
    clip: float | None,
    decay: float,
    penalty: float,
    accumulate: int,
    where: str,
    report: str,
) -> None:
    """Add up gradients over replicas, and update in each replica or outside of all."""
    import numpy as np
    import tensorflow as tf

    random = np.random.default_rng(seed)
    features = random.normal(size=(batch * steps, 5)).astype("float32")
    targets = np.tanh(features @ random.normal(size=(5, 2))).astype("float32")
    with strategy.scope():
        weights = [
            variable(random.normal(size=(5, width)).astype("float32") / 2, "hidden"),
            variable(tf.zeros([width]), "hidden_bias"),
            variable(random.normal(size=(width, 2)).astype("float32") / 2, "out"),
            variable(tf.zeros([2]), "bias"),
        ]
        held = [variable(tf.zeros_like(each), f"held_{place}") for place, each in enumerate(weights)]
        descent = Descent(weights, kind, rate, clip, decay)

    def output(x: Any) -> Any:
        hidden, hidden_bias, out, bias = weights
        return getattr(tf.nn, activation)(x @ hidden + hidden_bias) @ out + bias

    def replica_step(*columns: Any) -> Any:
        ids, x, y = mine(split, columns)
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(_losses(loss, output(x), y)) / batch
            penalties = penalty * tf.add_n([tf.nn.l2_loss(each) for each in (weights[0], weights[2])])
            value += tf.nn.scale_regularization_loss(penalties)
        gradients = tape.gradient(value, weights)
        if where == "inside":
            summed = tf.distribute.get_replica_context().all_reduce("SUM", gradients)
            _accumulated(held, summed)
        return value, gradients, ids

    def update(gradients: Any) -> None:
        descent.apply(gradients)
        for each in held:
            each.assign(tf.zeros_like(each))

    def replica_update() -> None:
        update([each / accumulate for each in held])

    @tf.function(reduce_retracing=True)
    def step(columns: Any, last: Any) -> Any:
        values, gradients, ids = strategy.run(replica_step, args=columns)
        summed = total(strategy, gradients)
        if where == "outside":
            _accumulated(held, summed)
        if last:
            if where == "inside":
                strategy.run(replica_update)
            else:
                replica_update()
        return values, total(strategy, values), summed, ids

    variables = [*weights, *descent.variables]
    for number, columns in enumerate(batches(strategy, (np.arange(len(features)), features, targets), batch, split), 1):
        parts, whole, gradients, ids = step(columns, number % accumulate == 0)
        by_name = dict(zip(("hidden", "hidden_bias", "out", "bias"), gradients, strict=True))
        record.step(loss=reported(report, parts, whole), gradients=by_name, variables=variables, examples=ids)
    record.final(variables=variables, predictions=output(features[:7]))


def _accumulated(held: list[Any], gradients: Any) -> None:
    for each, gradient in zip(held, gradients, strict=True):
        each.assign_add(gradient)


def _losses(loss: str, outputs: Any, targets: Any) -> Any:
    import tensorflow as tf

    error = outputs - targets
    if loss == "squared":
        return error**2
    if loss == "huber":
        return tf.where(tf.abs(error) < 1, error**2 / 2, tf.abs(error) - 0.5)
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.nn.sigmoid(targets), logits=outputs)
