"""rounding: gradients that are all rounding, of a bias before batch normalization or a shift before softmax."""

from __future__ import annotations

from random import Random
from typing import Any

from tools.sweeping.keras_loop import train_model


def draw(random: Random) -> dict[str, Any]:
    """Adam makes whole steps of such gradients, SGD next to none."""
    return {
        "form": random.choice(["normalized", "shift"]),
        "seed": random.randrange(2**20),
        "width": random.choice([2, 5, 8]),
        "optimizer": random.choice(["sgd", "momentum", "adam", "adam"]),
        "rate": random.choice([0.02, 0.1]),
        "report": random.choice(["parts", "sum", "float"]),
    }


def train(strategy: Any, record: Any, *, batch: int, steps: int, form: str, seed: int, width: int, **how: Any) -> None:
    """Classify; what the bias does is undone by the layer after it."""
    import keras
    import numpy as np

    random = np.random.default_rng(seed)
    features = random.normal(size=(batch * steps, 5)).astype("float32")
    classes = (features @ random.normal(size=(5, 3))).argmax(axis=1)

    def make() -> Any:
        initial = [keras.initializers.GlorotUniform(seed=seed + place) for place in range(2)]
        body = [keras.layers.Dense(width, kernel_initializer=initial[0])]
        if form == "normalized":
            body.append(keras.layers.BatchNormalization(momentum=0.5, synchronized=True))
        body += [keras.layers.Activation("tanh"), keras.layers.Dense(3, kernel_initializer=initial[1])]
        if form == "shift":
            body.append(_shift(keras))
        return keras.Sequential([keras.Input((5,)), *body])

    def losses(outputs: Any, targets: Any) -> Any:
        return keras.losses.sparse_categorical_crossentropy(targets, outputs, from_logits=True)

    train_model(strategy, record, make, losses, (features, classes), batch=batch, **how)


def _shift(keras: Any) -> Any:
    """Adds one number to the scores of all classes, which their probabilities do not show."""

    class Shift(keras.layers.Layer):  # type: ignore[misc]  # Keras is untyped
        def build(self, shape: Any) -> None:
            self.shift = self.add_weight(shape=(1,), initializer="zeros", name="shift")

        def call(self, scores: Any) -> Any:
            return scores + self.shift

    return Shift()
