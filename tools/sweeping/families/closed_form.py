"""closed_form: ridge regressions solved from reduced moments, in TensorFlow and in NumPy."""

from __future__ import annotations

from random import Random
from typing import Any

from tools.sweeping.training import batches, mine, total, variable


def draw(random: Random) -> dict[str, Any]:
    """How many columns, how alike they are (which conditions the system), and the ridge."""
    return {
        "steps": random.randrange(3, 9),
        "batch": random.choice([9, 12, 16, 24]),
        "seed": random.randrange(2**20),
        "columns": random.choice([2, 4, 6]),
        "alike": random.choice([0.0, 0.9, 0.99]),
        "unit": random.choice([1.0, 1.0, 100.0]),
        "ridge": random.choice([1e-3, 0.1, 1.0]),
    }


def train(
    strategy: Any,
    record: Any,
    *,
    batch: int,
    steps: int,
    split: str,
    seed: int,
    columns: int,
    alike: float,
    unit: float,
    ridge: float,
) -> None:
    """Add up the moments of all batches so far, solve, and report the weights and the error of the fit."""
    import numpy as np
    import tensorflow as tf

    random = np.random.default_rng(seed)
    common, own = random.normal(size=(batch * steps, 1)), random.normal(size=(batch * steps, columns))
    features = (unit * (np.sqrt(alike) * common + np.sqrt(1 - alike) * own)).astype("float32")
    noise = 0.1 * random.normal(size=(batch * steps, 1))
    targets = (features / unit @ random.normal(size=(columns, 1)) + noise).astype("float32")
    with strategy.scope():
        gram = variable(tf.zeros([columns, columns]), "gram")
        moment = variable(tf.zeros([columns, 1]), "moment")
    penalty = np.float32(ridge * unit**2) * np.eye(columns, dtype="float32")

    def moments(*given: Any) -> Any:
        ids, x, y = mine(split, given)
        return tf.matmul(x, x, transpose_a=True), tf.matmul(x, y, transpose_a=True), tf.reduce_sum(y**2), ids

    @tf.function(reduce_retracing=True)
    def step(given: Any) -> Any:
        xx, xy, yy, ids = strategy.run(moments, args=given)
        gram.assign_add(total(strategy, xx))
        moment.assign_add(total(strategy, xy))
        weights = tf.linalg.solve(gram + penalty, moment)
        fitted = tf.reduce_sum(weights * moment)
        return weights, fitted, total(strategy, yy), gram + penalty, tf.identity(moment), ids

    squares, seen = 0.0, 0
    weights = None
    for given in batches(strategy, (np.arange(len(features)), features, targets), batch, split):
        weights, fitted, yy, system, right, ids = step(given)
        squares, seen = squares + float(yy), seen + batch
        outside = np.linalg.solve(system.numpy().astype(np.float64), right.numpy().astype(np.float64))
        record.step(
            variables=[gram, moment],
            metrics={
                "weights": weights,
                "weights_np": outside,
                "explained": fitted / seen,
                "explained_np": float((outside * right.numpy()).sum()) / seen,
                "square": squares / seen,
            },
            examples=ids,
        )
    record.final(variables=[gram, moment], predictions=features[:6] @ weights)
