"""Metrics that count calls: each replica calls, and one device calls once."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from harness import Program, verify


def _fit(strategy: Any, record: Any, wrong: bool) -> None:
    """Two epochs of two steps by a `train_step` that gives the mean of a loss without the number of its examples."""
    import keras
    import numpy as np
    import tensorflow as tf

    keras.utils.set_random_seed(3)

    class Model(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, inputs: Any) -> Any:
            return self.dense(inputs)

        def train_step(self, data: Any) -> Any:
            x, y = data
            with tf.GradientTape() as tape:
                losses = tf.reduce_sum((self(x) - y) ** 2, axis=1)
                loss = tf.nn.compute_average_loss(losses, global_batch_size=8)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            for metric in self.metrics:
                metric.update_state(loss if wrong else tf.reduce_mean(losses))
            return {metric.name: metric.result() for metric in self.metrics}

    with strategy.scope():
        model = Model()
        model.build((None, 4))
        model.compile(optimizer=keras.optimizers.SGD(0.05))
    random = np.random.default_rng(5)
    x, y = random.normal(size=(16, 4)).astype("float32"), random.normal(size=(16, 1)).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
    model.fit(data, epochs=2, verbose=0, callbacks=[record.keras_callback(model)])


@pytest.mark.full
@pytest.mark.parametrize("wrong", [False, True])
def test_a_mean_over_calls_is_that_of_one_device(wrong: bool) -> None:
    """At each step of an epoch; a loss of which each replica has a part is told to be one."""
    verdict = verify(Program.of(functools.partial(_fit, wrong=wrong)), "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == ("inconsistent" if wrong else "consistent"), str(verdict)
    laws = {"loss_matches_reference", "metrics_match_reference"} if wrong else set()
    assert {each.law for each in verdict.findings} == laws
