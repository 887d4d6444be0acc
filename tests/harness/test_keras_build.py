"""Optimizers of Keras 3 that `fit` builds: on one device their variables have the names that they have in the run."""

from __future__ import annotations

from typing import Any

import pytest

from harness import verify


def _fits(strategy: Any, record: Any, optimizer: Any) -> None:
    import keras
    import tensorflow as tf

    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        model.compile(optimizer=optimizer(), loss="mse")
    rows = tf.random.stateless_normal((32, 4), (1, 2))
    model.fit(rows, tf.reduce_sum(rows, 1, keepdims=True), batch_size=16, shuffle=False, verbose=0)


def scaled(strategy: Any, record: Any) -> None:
    """As `mixed_float16` has it by default: a loss scale around Adam."""
    import keras

    _fits(strategy, record, lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.1), initial_scale=8.0))


def with_a_product(strategy: Any, record: Any) -> None:
    """Nadam makes a variable without a name."""
    import keras

    _fits(strategy, record, lambda: keras.optimizers.Nadam(0.1))


@pytest.mark.full
@pytest.mark.parametrize("program", [scaled, with_a_product])
def test_slots_are_compared(program: Any) -> None:
    """All of them are, and none is taken for one that each replica makes for itself."""
    verdict = verify(program, "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == "consistent", str(verdict)
    assert "not compared" not in str(verdict)
