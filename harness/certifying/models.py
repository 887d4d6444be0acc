"""The same training around a model of Keras 3 or of tf_keras, and one whose steps a coordinator hands to workers."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from harness.certifying.training import BATCH, OUTPUTS, STEPS, data

__all__ = ["train_keras", "train_served", "train_tf_keras"]


def _train(strategy: Any, record: Any, *, flavour: str) -> None:
    """A custom loop; every step records its loss and all variables."""
    import tensorflow as tf

    keras = importlib.import_module(flavour)
    tf.config.experimental.enable_op_determinism()
    x, y = data()
    keras.utils.set_random_seed(1)
    with strategy.scope():
        layers = [keras.layers.Dense(32, activation="tanh"), keras.layers.Dense(OUTPUTS)]
        model = keras.Sequential([keras.Input((x.shape[1],)), *layers])
        optimizer = keras.optimizers.Adam(0.01)
        optimizer.build(model.trainable_variables)

    def replica_step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((model(x, training=True) - y) ** 2) / (BATCH * OUTPUTS)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    @tf.function
    def train_step(x: Any, y: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(replica_step, args=(x, y)), axis=None)

    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    for batch in strategy.experimental_distribute_dataset(dataset.with_options(options)):
        record.step(loss=train_step(*batch), variables=model.trainable_variables)


train_keras = functools.partial(_train, flavour="keras")
train_tf_keras = functools.partial(_train, flavour="tf_keras")


def train_served(strategy: Any, record: Any) -> None:
    """Steps that a coordinator schedules one after the other, so that they can be repeated; variables on servers."""
    import tensorflow as tf

    tf.config.experimental.enable_op_determinism()
    x, y = data()
    with strategy.scope():
        w = tf.Variable(tf.ones((x.shape[1], OUTPUTS)) / 10, name="w")

    @tf.function
    def update(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.matmul(x, w) - y) ** 2) / (BATCH * OUTPUTS)
        w.assign_sub(0.1 * tape.gradient(loss, w))

    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    for step in range(STEPS):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        coordinator.schedule(update, args=(tf.constant(x[rows]), tf.constant(y[rows])))
        coordinator.join()
        record.step(variables=[w])
