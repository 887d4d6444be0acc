"""Small seeded models and optimizers, the same for Keras 3 (`keras`) and Keras 2 (`tf_keras`)."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Literal

from scenarios.programs.digits import CLASSES

Flavour = Literal["keras", "tf_keras"]
ModelName = Literal["cnn", "mlp"]
Style = Literal["sequential", "functional", "subclassed"]
# "accumulating" applies the mean of every two gradients; Keras 3 only.
OptimizerName = Literal["sgd", "momentum", "adam", "accumulating"]


def keras_module(flavour: Flavour) -> Any:
    """Import Keras 3 or Keras 2."""
    return importlib.import_module(flavour)


def initializer(seed: int) -> Callable[..., Any]:
    """A Glorot-uniform initializer that yields one shard of the same values when a variable is partitioned.

    The built-in initializers draw each shard of a partitioned variable separately, so that a partitioned model would
    start from other values than the reference.
    """

    def initialize(
        shape: Any, dtype: Any = None, partition_shape: Any = None, partition_offset: Any = None, **_: Any
    ) -> Any:
        import numpy as np
        import tensorflow as tf

        full = tuple(int(size) for size in shape)
        receptive = int(np.prod(full[:-2]))
        limit = np.sqrt(6 / (receptive * (full[-2] + full[-1])))
        values = np.random.default_rng(seed).uniform(-limit, limit, full)
        if partition_shape is not None:
            begin = partition_offset or (0,) * len(full)
            values = values[tuple(slice(int(b), int(b) + int(n)) for b, n in zip(begin, partition_shape, strict=True))]
        return tf.convert_to_tensor(values, dtype=tf.as_dtype(dtype or "float32"))

    return initialize


def build_model(flavour: Flavour, name: ModelName, style: Style = "sequential") -> Any:
    """A digits classifier that returns logits, in one of Keras's three styles; call it inside `strategy.scope()`."""
    keras = keras_module(flavour)
    layers = keras.layers
    if name == "cnn":
        body = [
            layers.Conv2D(4, 3, activation="relu", kernel_initializer=initializer(1)),
            layers.MaxPooling2D(),
            layers.Flatten(),
        ]
    else:
        body = [layers.Flatten(), layers.Dense(16, activation="tanh", kernel_initializer=initializer(1))]
    stack = [*body, layers.Dense(CLASSES, kernel_initializer=initializer(2))]
    image = keras.Input((8, 8, 1))
    if style == "sequential":
        return keras.Sequential([image, *stack])
    if style == "functional":
        return keras.Model(image, _through(stack, image))

    class Classifier(keras.Model):  # type: ignore[misc, name-defined]  # Keras is untyped
        def __init__(self) -> None:
            super().__init__()
            self.stack = stack

        def call(self, inputs: Any, training: bool | None = None) -> Any:
            return _through(self.stack, inputs)

    model = Classifier()
    model(image)  # a subclassed model has no variables before its first call
    return model


def _through(stack: list[Any], values: Any) -> Any:
    for layer in stack:
        values = layer(values)
    return values


def build_optimizer(flavour: Flavour, name: OptimizerName) -> Any:
    """Build an optimizer; call it inside `strategy.scope()`."""
    optimizers = keras_module(flavour).optimizers
    if name == "sgd":
        return optimizers.SGD(0.125)
    if name == "momentum":
        return optimizers.SGD(0.125, momentum=0.5)
    if name == "accumulating":
        return optimizers.SGD(0.125, gradient_accumulation_steps=2)
    return optimizers.Adam(0.01)


def variables_of(model: Any, optimizer: Any) -> list[Any]:
    """All variables of the model and of the optimizer, slots and iteration counter included."""
    own = optimizer.variables
    return [*model.variables, *(own() if callable(own) else own)]


def no_reduction(keras: Any) -> Any:
    """The loss reduction that keeps one value per example: an enumeration member in Keras 2, None in Keras 3."""
    return keras.losses.Reduction.NONE if hasattr(keras.losses, "Reduction") else None
