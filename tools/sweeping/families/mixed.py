"""mixed: single layers that compute in bfloat16 or float16, by Keras's policies or by casts."""

from __future__ import annotations

from random import Random
from typing import Any

from tools.sweeping.keras_loop import train_model
from tools.sweeping.training import Descent, fit_by_hand, variable


def draw(random: Random) -> dict[str, Any]:
    """Which layers are coarse, and how that is said."""
    return {
        "form": random.choice(["policy", "cast"]),
        "seed": random.randrange(2**20),
        "coarse": random.choice(["bfloat16", "bfloat16", "float16"]),
        "first": random.random() < 0.5,
        "width": random.choice([4, 8, 16]),
        "optimizer": random.choice(["sgd", "momentum", "adam"]),
        "rate": random.choice([0.02, 0.1]),
        "report": random.choice(["parts", "sum", "float"]),
    }


def train(strategy: Any, record: Any, *, form: str, **drawn: Any) -> None:
    """A perceptron of which either the first or the second layer is coarse."""
    (_policy if form == "policy" else _cast)(strategy, record, **drawn)


def _data(batch: int, steps: int, seed: int) -> tuple[Any, Any]:
    import numpy as np

    random = np.random.default_rng(seed)
    features = random.normal(size=(batch * steps, 5))
    return features.astype("float32"), np.tanh(features @ random.normal(size=(5, 1))).astype("float32")


def _policy(
    strategy: Any,
    record: Any,
    *,
    batch: int,
    steps: int,
    seed: int,
    coarse: str,
    first: bool,
    width: int,
    **how: Any,
) -> None:
    import keras
    import tensorflow as tf

    def make() -> Any:
        initial = [keras.initializers.GlorotUniform(seed=seed + place) for place in range(3)]
        fine = [f"mixed_{coarse}" if (place == 0) == first and place < 2 else "float32" for place in range(3)]
        return keras.Sequential(
            [
                keras.Input((5,)),
                keras.layers.Dense(width, "tanh", kernel_initializer=initial[0], dtype=fine[0]),
                keras.layers.Dense(width, "tanh", kernel_initializer=initial[1], dtype=fine[1]),
                keras.layers.Dense(1, kernel_initializer=initial[2], dtype=fine[2]),
            ]
        )

    def losses(outputs: Any, targets: Any) -> Any:
        return tf.reduce_mean((tf.cast(outputs, "float32") - targets) ** 2, axis=1)

    train_model(strategy, record, make, losses, _data(batch, steps, seed), batch=batch, **how)


def _cast(
    strategy: Any,
    record: Any,
    *,
    batch: int,
    steps: int,
    split: str,
    seed: int,
    coarse: str,
    first: bool,
    width: int,
    optimizer: str,
    rate: float,
    report: str,
) -> None:
    import numpy as np
    import tensorflow as tf

    features, targets = _data(batch, steps, seed)
    random = np.random.default_rng(seed + 1)
    with strategy.scope():
        hidden = variable(random.normal(size=(5, width)).astype("float32") / 2, "hidden")
        out = variable(random.normal(size=(width, 1)).astype("float32") / width**0.5, "out")
        descent = Descent([hidden, out], optimizer, rate / 10 if optimizer == "adam" else rate)

    def product(x: Any, kernel: Any, is_coarse: bool) -> Any:
        if not is_coarse:
            return x @ kernel
        return tf.cast(tf.cast(x, coarse) @ tf.cast(kernel, coarse), "float32")

    def output(x: Any) -> Any:
        return product(tf.tanh(product(x, hidden, first)), out, not first)

    fit_by_hand(
        strategy,
        record,
        {"hidden": hidden, "out": out},
        output,
        (features, targets),
        descent=descent,
        batch=batch,
        split=split,
        report=report,
    )
