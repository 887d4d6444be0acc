"""dense: Keras models of dense layers in custom loops, with the optimizers of Keras."""

from __future__ import annotations

from random import Random
from typing import Any

from tools.sweeping.keras_loop import train_model


def draw(random: Random) -> dict[str, Any]:
    """Layers, loss and optimizer."""
    return {
        "seed": random.randrange(2**20),
        "widths": [random.choice([2, 7, 16]) for _ in range(random.choice([1, 1, 2]))],
        "activation": random.choice(["relu", "tanh", "gelu"]),
        "loss": random.choice(["mean_squared_error", "huber", "sparse_categorical_crossentropy"]),
        "optimizer": random.choice(["sgd", "momentum", "adam", "adamw"]),
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
    widths: list[int],
    activation: str,
    loss: str,
    **how: Any,
) -> None:
    """Regression or classification of random features."""
    import keras
    import numpy as np
    import tensorflow as tf

    random = np.random.default_rng(seed)
    features = random.normal(size=(batch * steps, 6)).astype("float32")
    scores = features @ random.normal(size=(6, 3)).astype("float32")
    classes = loss.startswith("sparse")

    def make() -> Any:
        initial = [keras.initializers.GlorotUniform(seed=seed + place) for place in range(len(widths) + 1)]
        layers = [
            keras.layers.Dense(width, activation, kernel_initializer=each)
            for width, each in zip(widths, initial, strict=False)
        ]
        return keras.Sequential([keras.Input((6,)), *layers, keras.layers.Dense(3, kernel_initializer=initial[-1])])

    def losses(outputs: Any, targets: Any) -> Any:
        if classes:
            return keras.losses.sparse_categorical_crossentropy(targets, outputs, from_logits=True)
        return getattr(keras.losses, loss)(targets, outputs)

    def metrics(outputs: Any, targets: Any) -> dict[str, Any]:
        return {} if classes else {"absolute": tf.reduce_sum(tf.abs(outputs - targets))}

    targets = scores.argmax(axis=1) if classes else np.tanh(scores)
    train_model(strategy, record, make, losses, (features, targets), batch=batch, split=split, metrics=metrics, **how)
