"""sequence: an embedding and a small GRU, losses of tokens divided by all tokens of the batch."""

from __future__ import annotations

from random import Random
from typing import Any

from tools.sweeping.keras_loop import train_model

LENGTH = 5


def draw(random: Random) -> dict[str, Any]:
    """Sizes and optimizer; few steps, since a GRU is dear."""
    return {
        "steps": random.randrange(3, 7),
        "seed": random.randrange(2**20),
        "words": random.choice([11, 50]),
        "width": random.choice([3, 6]),
        "recurrent": random.random() < 0.5,
        "optimizer": random.choice(["sgd", "momentum", "adam"]),
        "rate": random.choice([0.05, 0.2]),
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
    words: int,
    width: int,
    recurrent: bool,
    **how: Any,
) -> None:
    """Predict the next word of a cycle, from sequences that all have the same length."""
    import keras
    import numpy as np
    import tensorflow as tf

    random = np.random.default_rng(seed)
    first = random.integers(words, size=(batch * steps, 1))
    tokens = (first + np.arange(LENGTH + 1) * 3) % words

    def make() -> Any:
        initial = [keras.initializers.GlorotUniform(seed=seed + place) for place in range(4)]
        read = keras.layers.GRU(
            width, return_sequences=True, kernel_initializer=initial[1], recurrent_initializer=initial[2]
        )
        return keras.Sequential(
            [
                keras.Input((LENGTH,), dtype="int64"),
                keras.layers.Embedding(words, width, embeddings_initializer=initial[0]),
                read if recurrent else keras.layers.Dense(width, "tanh", kernel_initializer=initial[1]),
                keras.layers.Dense(words, kernel_initializer=initial[3]),
            ]
        )

    def losses(outputs: Any, targets: Any) -> Any:
        each = keras.losses.sparse_categorical_crossentropy(targets, outputs, from_logits=True)
        return tf.reduce_mean(each, axis=1)

    train_model(strategy, record, make, losses, (tokens[:, :-1], tokens[:, 1:]), batch=batch, split=split, **how)
