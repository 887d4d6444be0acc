"""large: variables and gradients of a hundred thousand to a million elements."""

from __future__ import annotations

from random import Random
from typing import Any

from tools.sweeping.training import Descent, batches, mine, reported, total, variable

__all__ = ["draw", "train"]


def draw(random: Random) -> dict[str, Any]:
    """A kernel, or a table of which each step touches some rows; three steps."""
    return {
        "steps": 3,
        "seed": random.randrange(2**20),
        "form": random.choice(["kernel", "table"]),
        "rows": random.choice([1000, 2500, 10_000]),
        "kind": random.choice(["sgd", "sgd", "momentum"]),
        "rate": random.choice([0.05, 0.5]),
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
    form: str,
    rows: int,
    kind: str,
    rate: float,
    report: str,
) -> None:
    """Read a hundred numbers for each example, by a product with all rows or by looking a few of them up."""
    import numpy as np
    import tensorflow as tf

    random = np.random.default_rng(seed)
    table = form == "table"
    features = (
        random.integers(rows, size=(batch * steps, 4))
        if table
        else random.normal(size=(batch * steps, rows)).astype("float32")
    )
    targets = random.normal(size=(batch * steps, 1)).astype("float32")
    with strategy.scope():
        kernel = variable((random.normal(size=(rows, 100)) / rows**0.5).astype("float32"), "kernel")
        out = variable((random.normal(size=(100, 1)) / 10).astype("float32"), "out")
        descent = Descent([kernel, out], kind, rate)

    def output(x: Any) -> Any:
        hidden = tf.reduce_sum(tf.gather(kernel, x), axis=1) if table else x @ kernel
        return tf.tanh(hidden) @ out

    def replica_step(*columns: Any) -> Any:
        ids, x, y = mine(split, columns)
        with tf.GradientTape() as tape:
            value = tf.nn.compute_average_loss(tf.squeeze(output(x) - y, 1) ** 2, global_batch_size=batch)
        gradients = tape.gradient(value, [kernel, out])
        return value, [tf.convert_to_tensor(each) for each in gradients], ids

    @tf.function(reduce_retracing=True)
    def step(columns: Any) -> Any:
        values, gradients, ids = strategy.run(replica_step, args=columns)
        summed = total(strategy, gradients)
        descent.apply(summed)
        return values, total(strategy, values), summed, ids

    variables = [kernel, out, *descent.variables]
    for columns in batches(strategy, (np.arange(len(features)), features, targets), batch, split):
        parts, whole, gradients, ids = step(columns)
        by_name = dict(zip(("kernel", "out"), gradients, strict=True))
        record.step(loss=reported(report, parts, whole), gradients=by_name, variables=variables, examples=ids)
    record.final(predictions=output(features[:6]))
