"""Small trainings that are wrong at some steps only, and only with several replicas."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

STEPS = 10


def halving(wrong_at: tuple[int, ...] = (), *, divisor: float = 4.0) -> Callable[[Any, Any], None]:
    """Each step takes `w` half the way to the mean of 8 small integers: exact in float32 for ten steps.

    Args:
        wrong_at: steps at which several replicas divide by `divisor` instead of 8.
        divisor: what they take; 0 makes NaN or infinity.
    """
    return functools.partial(_halving, wrong_at=wrong_at, divisor=divisor)


def _halving(strategy: Any, record: Any, *, wrong_at: tuple[int, ...], divisor: float) -> None:
    import numpy as np
    import tensorflow as tf

    several = strategy.num_replicas_in_sync > 1
    data = (np.arange(8 * STEPS) * 7 % 5).astype(np.float32)
    with strategy.scope():
        w = tf.Variable([4.0], name="w", aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)

    @tf.function
    def step(x: Any, divisor: Any) -> Any:
        def replica(x: Any, divisor: Any) -> Any:
            slope = tf.reduce_sum(w - x, keepdims=True) / divisor
            w.assign_sub(0.5 * tf.distribute.get_replica_context().all_reduce("sum", slope))
            return slope

        return strategy.reduce("SUM", strategy.run(replica, args=(x, divisor)), axis=None)[0]

    batches = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(data).batch(8))
    for number, x in enumerate(batches, start=1):
        loss = step(x, tf.constant(divisor if several and number in wrong_at else 8.0))
        record.step(loss=loss, variables=[w])


def logistic(wrong_at: int = 0) -> Callable[[Any, Any], None]:
    """Fifty steps of a map that is chaotic, from sums over a batch; one is wrong by 1e-4 with several replicas."""
    return functools.partial(_logistic, wrong_at=wrong_at)


def _logistic(strategy: Any, record: Any, *, wrong_at: int) -> None:
    import numpy as np
    import tensorflow as tf

    several = strategy.num_replicas_in_sync > 1
    shares = np.random.default_rng(1).uniform(0.5, 1.5, 16).astype(np.float32)
    shares /= shares.sum()
    with strategy.scope():
        w = tf.Variable([0.3, 0.4], name="w", aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)

    @tf.function
    def step(shares: Any, factor: Any) -> None:
        def replica(shares: Any, factor: Any) -> None:
            part = tf.reduce_sum(shares[:, None] * (3.9 * w * (1.0 - w)), axis=0)
            w.assign(factor * tf.distribute.get_replica_context().all_reduce("sum", part))

        strategy.run(replica, args=(shares, factor))

    batches = strategy.experimental_distribute_dataset(
        tf.data.Dataset.from_tensors(shares).repeat(50).unbatch().batch(16)
    )
    for number, batch in enumerate(batches, start=1):
        step(batch, tf.constant(1.0001 if several and number == wrong_at else 1.0))
        record.step(variables=[w])


def with_momentum(wrong_at: int = 0) -> Callable[[Any, Any], None]:
    """Keras's SGD with momentum, whose slots are not recorded; the gradient of one step is doubled."""
    return functools.partial(_with_momentum, wrong_at=wrong_at)


def _with_momentum(strategy: Any, record: Any, *, wrong_at: int) -> None:
    import keras
    import tensorflow as tf

    several = strategy.num_replicas_in_sync > 1
    with strategy.scope():
        w = keras.Variable([1.0, 2.0], name="w")
        optimizer = keras.optimizers.SGD(0.25, momentum=0.5)
        optimizer.build([w])

    @tf.function
    def step(factor: Any) -> None:
        def replica(factor: Any) -> None:
            share = 1.0 / strategy.num_replicas_in_sync
            optimizer.apply_gradients([(factor * share * tf.convert_to_tensor(w), w)])

        strategy.run(replica, args=(factor,))

    for number in range(1, 7):
        step(tf.constant(2.0 if several and number == wrong_at else 1.0))
        record.step(variables=[w])


def sgd_fit(flavour: str, wrong_at: int = 0) -> Callable[[Any, Any], None]:
    """A linear model in `fit` of Keras 3 or tf_keras, two epochs of three steps, whose weights somebody changes."""
    return functools.partial(_sgd_fit, flavour=flavour, wrong_at=wrong_at)


def _sgd_fit(strategy: Any, record: Any, *, flavour: str, wrong_at: int) -> None:
    import importlib

    import numpy as np
    import tensorflow as tf

    keras = importlib.import_module(flavour)
    several = strategy.num_replicas_in_sync > 1
    features = np.random.default_rng(0).normal(size=(24, 4)).astype("float32")
    with strategy.scope():
        layer = keras.layers.Dense(1, kernel_initializer="ones")
        model = keras.Sequential([keras.Input((4,)), layer])
        model.compile(optimizer=keras.optimizers.SGD(0.0625, momentum=0.5), loss="mse", metrics=["mae"])

    class Meddling(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        steps = 0

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self.steps += 1
            if several and self.steps == wrong_at:
                layer.bias.assign([0.5])

    data = tf.data.Dataset.from_tensor_slices((features, features.sum(axis=1, keepdims=True) - 0.25))
    model.fit(
        data.batch(8).repeat(),
        steps_per_epoch=3,
        epochs=2,
        verbose=0,
        callbacks=[*([Meddling()] if wrong_at else []), record.keras_callback(model)],
    )
