"""Trainings of ten steps whose verdicts are timed: a CNN with dropout, MobileNetV2, and a small transformer.

Each is a function to be verified. As a script this file trains one of them under a strategy that it builds itself:
`python trainings.py cnn mirrored-2`, or `by-hand`, on two logical devices, or as one of several workers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

_STEPS, _BATCH = 10, 16


def cnn(strategy: Any, record: Any) -> None:
    """Two convolutions, dropout, Adam; images of 28 x 28."""
    import keras

    def build() -> Any:
        layers = keras.layers
        first = [keras.Input((28, 28, 1)), layers.Conv2D(16, 3, activation="relu"), layers.MaxPooling2D()]
        then = [layers.Conv2D(32, 3, activation="relu"), layers.Flatten(), layers.Dense(64, activation="relu")]
        return keras.Sequential([*first, *then, layers.Dropout(0.3), layers.Dense(10)])

    _train(strategy, record, build, _images(28, 1))


def mobilenet(strategy: Any, record: Any) -> None:
    """Keras's, a third as wide; images of 96 x 96."""
    import keras

    def build() -> Any:
        return keras.applications.MobileNetV2((96, 96, 3), 0.35, weights=None, classes=10, classifier_activation=None)

    _train(strategy, record, build, _images(96, 3))


def transformer(strategy: Any, record: Any) -> None:
    """Two blocks of attention with dropout; 32 words each."""
    import keras
    import numpy as np

    def build() -> Any:
        layers = keras.layers
        words = keras.Input((32,), dtype="int32")
        x = layers.Embedding(1000, 64)(words)
        for _ in range(2):
            x = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, 16, dropout=0.1)(x, x))
            x = layers.LayerNormalization()(x + layers.Dense(64)(layers.Dense(128, activation="gelu")(x)))
        return keras.Model(words, layers.Dense(10)(layers.GlobalAveragePooling1D()(x)))

    words = np.random.default_rng(0).integers(0, 1000, (_STEPS * _BATCH, 32)).astype(np.int32)
    _train(strategy, record, build, words)


def _images(side: int, channels: int) -> Any:
    import numpy as np

    return np.random.default_rng(0).normal(size=(_STEPS * _BATCH, side, side, channels)).astype(np.float32)


def _train(strategy: Any, record: Any, build: Callable[[], Any], inputs: Any) -> None:
    import keras
    import numpy as np
    import tensorflow as tf

    labels = np.random.default_rng(1).integers(0, 10, len(inputs))
    data = tf.data.Dataset.from_tensor_slices((inputs, labels)).shuffle(len(inputs)).batch(_BATCH)
    with strategy.scope():
        model, optimizer = build(), keras.optimizers.Adam(1e-3)
        optimizer.build(model.trainable_variables)
        losses = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def replica(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(losses(y, model(x, training=True)), global_batch_size=_BATCH)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function
    def step(x: Any, y: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(replica, args=(x, y)), axis=None)

    for x, y in strategy.experimental_distribute_dataset(data):
        record.step(loss=step(x, y), variables=model.trainable_variables)
    record.final(variables=model.trainable_variables)


class _Nobody:
    """A record that keeps nothing."""

    def step(self, **values: Any) -> None:
        """A step was done."""

    def final(self, **values: Any) -> None:
        """The training was done."""


def _strategy(name: str) -> Any:
    import tensorflow as tf

    if "TF_CONFIG" in os.environ:
        return tf.distribute.MultiWorkerMirroredStrategy()
    if name == "by-hand":
        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
        return tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
    return tf.distribute.MirroredStrategy()


if __name__ == "__main__":
    {"cnn": cnn, "mobilenet": mobilenet, "transformer": transformer}[sys.argv[1]](_strategy(sys.argv[2]), _Nobody())
