"""fit: `Model.fit` of Keras 3, batches that the replicas divide."""

from __future__ import annotations

from random import Random
from typing import Any

from tools.sweeping.training import keras_optimizer


def SUITS(strategy: str) -> bool:  # noqa: N802 - one of the three names that a family has
    """Keras 3 has no `fit` under MultiWorkerMirroredStrategy."""
    return strategy.startswith("mirrored")


def draw(random: Random) -> dict[str, Any]:
    """Fit averages replicas of unequal shares with equal weights, so batches are multiples of four here."""
    return {
        "batch": random.choice([8, 16, 24]),
        "split": "dataset",
        "seed": random.randrange(2**20),
        "width": random.choice([2, 7, 16]),
        "loss": random.choice(["mse", "mae", "huber"]),
        "optimizer": random.choice(["sgd", "momentum", "adam", "adamw"]),
        "rate": random.choice([0.02, 0.1]),
        "scale": random.choice([1.0, 1.0, 1e4]),
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
    loss: str,
    optimizer: str,
    rate: float,
    scale: float,
) -> None:
    """One epoch of `fit` on a column of the given scale; logs, variables and predictions are recorded."""
    import keras
    import numpy as np

    random = np.random.default_rng(seed)
    features = random.normal(size=(batch * steps, 4)).astype("float32")
    targets = (scale * np.tanh(features @ random.normal(size=(4, 1)))).astype("float32")
    with strategy.scope():
        initial = [keras.initializers.GlorotUniform(seed=seed + place) for place in range(2)]
        model = keras.Sequential(
            [
                keras.Input((4,)),
                keras.layers.Dense(width, "tanh", kernel_initializer=initial[0]),
                keras.layers.Dense(1, kernel_initializer=initial[1]),
                keras.layers.Rescaling(scale),
            ]
        )
        # The gradient of a squared loss grows with the square of the scale, of the others with the scale.
        slow = scale**2 if loss == "mse" else scale
        model.compile(optimizer=keras_optimizer(optimizer, rate if "adam" in optimizer else rate / slow), loss=loss)
    model.fit(features, targets, batch_size=batch, shuffle=False, verbose=0, callbacks=[record.keras_callback(model)])
    record.final(predictions=model.predict(features[:8], batch_size=8, verbose=0))
