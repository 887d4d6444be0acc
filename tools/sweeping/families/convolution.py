"""convolution: small images, convolutions and synchronized batch normalization."""

from __future__ import annotations

from random import Random
from typing import Any

from tools.sweeping.keras_loop import train_model


def draw(random: Random) -> dict[str, Any]:
    """Filters, whether the convolution has a bias, and the optimizer."""
    return {
        "batch": random.choice([8, 12, 13, 17]),
        "seed": random.randrange(2**20),
        "filters": random.choice([2, 4]),
        "bias": random.choice([False, False, True]),
        "normalized": random.choice([True, True, False]),
        "optimizer": random.choice(["sgd", "momentum"]),
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
    filters: int,
    bias: bool,
    normalized: bool,
    **how: Any,
) -> None:
    """Classify images of 6 by 6 by their brightest quarter."""
    import keras
    import numpy as np

    random = np.random.default_rng(seed)
    images = random.normal(size=(batch * steps, 6, 6, 2)).astype("float32")
    quarters = images.reshape(-1, 2, 3, 2, 3, 2).sum(axis=(2, 4, 5)).reshape(-1, 4).argmax(axis=1)

    def make() -> Any:
        initial = [keras.initializers.GlorotUniform(seed=seed + place) for place in range(2)]
        body = [keras.layers.Conv2D(filters, 3, use_bias=bias, kernel_initializer=initial[0])]
        if normalized:
            body.append(keras.layers.BatchNormalization(momentum=0.5, synchronized=True))
        body += [keras.layers.Activation("relu"), keras.layers.AveragePooling2D(2), keras.layers.Flatten()]
        return keras.Sequential([keras.Input((6, 6, 2)), *body, keras.layers.Dense(4, kernel_initializer=initial[1])])

    def losses(outputs: Any, targets: Any) -> Any:
        return keras.losses.sparse_categorical_crossentropy(targets, outputs, from_logits=True)

    train_model(strategy, record, make, losses, (images, quarters), batch=batch, split=split, **how)
