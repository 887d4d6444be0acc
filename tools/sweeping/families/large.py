"""large: variables and gradients of a hundred thousand to a million elements."""

from __future__ import annotations

from random import Random
from typing import Any

from tools.sweeping.training import Descent, fit_by_hand, variable


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

    fit_by_hand(
        strategy,
        record,
        {"kernel": kernel, "out": out},
        output,
        (features, targets),
        descent=descent,
        batch=batch,
        split=split,
        report=report,
    )
