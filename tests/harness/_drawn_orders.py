"""Trainings in which each replica draws an order of its rows: to mix them, or to train on the first half of it."""

from __future__ import annotations

import functools
from typing import Any

from harness.subject.program import Program

ORDERS = ("shuffled", "sorted", "by_numpy")


def drawn_orders(kind: str, order: str = "shuffled", *, graph: bool = True, summed: bool = False) -> Program:
    """Four steps of a linear regression.

    Args:
        kind: `ranks`, by which the first half of an order is trained on, or `mixed`, where an example is mixed with the
            one that takes its place.
        order: one of `ORDERS`: a shuffle of TensorFlow's, the order of random numbers, or a permutation of NumPy's.
        graph: whether the step is a `tf.function`.
        summed: whether losses are too large by the number of replicas.
    """
    return Program.of(functools.partial(_drawn_orders, kind=kind, order=order, graph=graph, summed=summed))


def _drawn_orders(strategy: Any, record: Any, *, kind: str, order: str, graph: bool, summed: bool) -> None:
    import numpy as np
    import tensorflow as tf

    random = np.random.RandomState(3)
    x, factor = random.randn(64, 5).astype("f4"), strategy.num_replicas_in_sync if summed else 1
    data = tf.data.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).batch(16)
    with strategy.scope():
        w = tf.Variable(tf.zeros([5, 1]), name="w")

    def drawn(rows: Any) -> Any:
        if order == "by_numpy":
            found = tf.numpy_function(lambda rows: np.random.permutation(int(rows)).astype("i4"), [rows], tf.int32)
            return tf.ensure_shape(found, [None])
        if order == "shuffled":
            return tf.random.shuffle(tf.range(rows))
        numbers = tf.random.uniform([rows])
        return tf.argsort(tf.argsort(numbers)) if kind == "ranks" else tf.argsort(numbers)

    def replica_step(x: Any, y: Any) -> None:
        rows = tf.shape(x)[0]
        found, weights = drawn(rows), tf.ones([rows, 1])
        if kind == "ranks":
            weights = tf.cast(found < rows // 2, tf.float32)[:, tf.newaxis]
        else:
            x, y = 0.7 * x + 0.3 * tf.gather(x, found), 0.7 * y + 0.3 * tf.gather(y, found)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weights * (x @ w - y) ** 2) * factor / 16
        w.assign_sub(0.05 * tf.distribute.get_replica_context().all_reduce("sum", tape.gradient(loss, w)))

    def step(x: Any, y: Any) -> None:
        strategy.run(replica_step, args=(x, y))

    step = tf.function(step) if graph else step
    for batch in strategy.experimental_distribute_dataset(data):
        step(*batch)
        record.step(variables=[w])
