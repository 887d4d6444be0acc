"""Trainings that keep something outside of variables which goes into the examples: a table, or numbers in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

_BATCH = 8


def _data(count: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(count, 3)).astype(np.float32)
    return x, x.sum(axis=1), (rng.random(count) ** 2 * 3).astype(np.int64)


def counted(*, often: bool) -> Any:
    """A program in which an example weighs the less, the more often a table has counted its class.

    Args:
        often: whether each replica adds what all of them have counted.
    """

    def train(strategy: Any, record: Any) -> None:
        import tensorflow as tf

        table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 1.0)
        classes = tf.constant([0, 1, 2], tf.int64)
        with strategy.scope():
            w = tf.Variable(tf.zeros(3), name="w", aggregation=tf.VariableAggregation.SUM)

        def add(counts: Any) -> None:
            table.insert(classes, table.lookup(classes) + counts)

        def replica_step(x: Any, y: Any, kind: Any, weight: Any) -> Any:
            counts = tf.distribute.get_replica_context().all_reduce("SUM", tf.reduce_sum(tf.one_hot(kind, 3), axis=0))
            if often:
                add(counts)
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(weight * (tf.linalg.matvec(x, w) - y) ** 2) / _BATCH
            w.assign_sub(0.1 * tape.gradient(loss, w))
            return counts

        @tf.function
        def step(x: Any, y: Any, kind: Any) -> None:
            weight = strategy.run(lambda kind: 4.0 / table.lookup(kind), args=(kind,))
            counts = strategy.run(replica_step, args=(x, y, kind, weight))
            if not often:
                add(strategy.experimental_local_results(counts)[0])

        data = tf.data.Dataset.from_tensor_slices(_data(4 * _BATCH)).batch(_BATCH)
        for batch in strategy.experimental_distribute_dataset(data):
            step(*batch)
            record.step(variables=[w])

    return train


def noted(*, first: bool) -> Any:
    """A program in which an example weighs by its loss of the epoch before, which NumPy keeps.

    Args:
        first: whether those of the first replica only are noted.
    """

    def train(strategy: Any, record: Any) -> None:
        import tensorflow as tf

        x, y, _ = _data(2 * _BATCH)
        last = np.ones(len(x), np.float32)
        with strategy.scope():
            w = tf.Variable(tf.zeros(3), name="w", aggregation=tf.VariableAggregation.SUM)

        def replica_step(number: Any, x: Any, y: Any, weight: Any) -> Any:
            with tf.GradientTape() as tape:
                losses = (tf.linalg.matvec(x, w) - y) ** 2
                loss = tf.reduce_sum(weight * losses) / _BATCH
            w.assign_sub(0.1 * tape.gradient(loss, w))
            return number, losses

        @tf.function
        def step(*batch: Any) -> Any:
            return strategy.run(replica_step, args=batch)

        for _ in range(2):
            data = tf.data.Dataset.from_tensor_slices((np.arange(len(x)), x, y, last / last.mean())).batch(_BATCH)
            for batch in strategy.experimental_distribute_dataset(data):
                found = map(strategy.experimental_local_results, step(*batch))
                for number, losses in list(zip(*found, strict=True))[: 1 if first else None]:
                    last[number.numpy()] = losses.numpy()
                record.step(variables=[w])

    return train
