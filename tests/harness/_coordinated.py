"""A training by a coordinator whose closures meet: Adam, dropout, data that each worker shuffles for itself."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def asynchronous(mistake: str = "") -> Callable[[Any, Any], None]:
    """It joins once an epoch; `twice` takes a loss twice under the cluster, `unjoined` reports without a join.

    `outside` is right and calls no `Strategy.run`, so that nobody knows what a worker has read.
    """
    return functools.partial(_train, mistake=mistake)


def _train(strategy: Any, record: Any, *, mistake: str) -> None:
    import numpy as np
    import tensorflow as tf
    import tf_keras

    cluster = isinstance(strategy, tf.distribute.ParameterServerStrategy)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy) if cluster else _Here()
    with strategy.scope():
        layers = tf_keras.layers
        model = tf_keras.Sequential(
            [tf_keras.Input((4,)), layers.Dense(8, "tanh"), layers.Dropout(0.3), layers.Dense(1)]
        )
        optimizer = tf_keras.optimizers.legacy.Adam(0.01)
    factor = 2.0 if cluster and mistake == "twice" else 1.0

    def data() -> Any:
        x = np.random.RandomState(0).randn(64, 4).astype("f4")
        return tf.data.Dataset.from_tensor_slices((x, x.sum(1))).shuffle(64).repeat().batch(8)

    def replica_step(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            loss = factor * tf.reduce_mean((model(x, training=True)[:, 0] - y) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        pairs = list(zip(gradients, model.trainable_variables, strict=True))
        if mistake == "outside":  # where no optimizer of Keras goes
            for gradient, variable in pairs:
                variable.assign_sub(0.1 * gradient)
        else:
            optimizer.apply_gradients(pairs)

    @tf.function
    def step(iterator: Any) -> None:
        if mistake == "outside":
            replica_step(*next(iterator))
        else:
            strategy.run(replica_step, args=next(iterator))

    iterator = iter(coordinator.create_per_worker_dataset(data))
    for _ in range(2):
        for _ in range(4):
            coordinator.schedule(step, args=(iterator,))
        if mistake != "unjoined":
            coordinator.join()
        record.step(variables=[*model.trainable_variables, *optimizer.variables()])


def evaluating(how: str) -> Callable[[Any, Any], None]:
    """Closures that evaluate follow those that train: these are `counted` or `lost`, or trained is `here`.

    `open` reports the end while the last evaluation is neither joined nor fetched.
    """
    return functools.partial(_evaluate, how=how)


def _evaluate(strategy: Any, record: Any, *, how: str) -> None:
    import tensorflow as tf

    cluster = isinstance(strategy, tf.distribute.ParameterServerStrategy)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy) if cluster else _Here()
    with strategy.scope():
        weights = tf.Variable([0.0], name="weights")
        iterations = tf.Variable(0, dtype=tf.int64, name="iterations")
        metric = tf.Variable(0.0, name="metric", trainable=False)
        tested = tf.Variable(0, name="tested")

    def update() -> None:
        weights.assign_add([0.5])
        iterations.assign_add(0 if cluster and how == "lost" else 1)

    def measure() -> None:
        metric.assign_add(tf.reduce_sum(weights) + tf.cast(iterations, tf.float32))
        tested.assign_add(1)

    step, evaluation = (tf.function(functools.partial(strategy.run, each)) for each in (update, measure))
    for _ in range(3):
        if how == "here":
            step()
        else:
            coordinator.schedule(step, args=())
            coordinator.join()
        if how != "open":
            coordinator.schedule(evaluation, args=())
            coordinator.join()
        record.step(variables=[weights, iterations, metric])
    coordinator.schedule(evaluation, args=())
    if how != "open":
        coordinator.join()
    record.final(variables=[metric])


class _Here:
    """What `ClusterCoordinator` offers, done at once in this process."""

    def schedule(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        return function(*args)

    def join(self) -> None:
        """Everything is done."""

    def create_per_worker_dataset(self, make: Callable[[], Any]) -> Any:
        return make()
