"""State that no tape and no optimizer touches: an average of weights, a count, a centre that each replica may move."""

from __future__ import annotations

from typing import Any

import numpy as np

_BATCH = 16


def _rows(steps: int = 4) -> Any:
    return np.random.default_rng(3).normal(1.0, 1.0, size=(_BATCH * steps, 3)).astype("float32")


def averaging(where: str, *, often: bool, reports: bool) -> Any:
    """A program that keeps an average of its weights, and how many steps it has taken.

    Args:
        where: what changes them: `python` between steps, the `graph` of a step outside of replicas, or `replica`s.
        often: whether that happens as often as there are replicas.
        reports: the weights.
    """

    def train(strategy: Any, record: Any) -> None:
        import tensorflow as tf

        data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(_rows()).batch(_BATCH))
        once = tf.VariableAggregation.ONLY_FIRST_REPLICA
        with strategy.scope():
            w = tf.Variable(tf.ones(3), name="w", aggregation=tf.VariableAggregation.SUM)
            average = tf.Variable(tf.ones(3), trainable=False, name="average", aggregation=once)
            count = tf.Variable(0.0, trainable=False, name="count", aggregation=tf.VariableAggregation.SUM)
        replicas = int(strategy.num_replicas_in_sync)

        def replica_step(x: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((tf.linalg.matvec(x, w) - 1) ** 2) / _BATCH
            w.assign_sub(0.1 * tape.gradient(loss, w))
            count.assign_add(tf.constant(1.0 / (1 if often and where == "replica" else replicas)))
            return loss

        def again() -> None:
            for _ in range(replicas if often else 1):
                average.assign(0.9 * average + 0.1 * w)

        @tf.function
        def step(x: Any) -> Any:
            loss = strategy.reduce("SUM", strategy.run(replica_step, args=(x,)), axis=None)
            if where == "graph":
                again()
            return loss

        for x in data:
            loss = step(x)
            if reports:
                record.step(loss=loss, variables=[w])
            if where == "python":
                again()

    return train


def centred(kind: str) -> Any:
    """A program whose loss is a distance from a running mean: one `shared` by replicas, or each replica's `own`.

    An `early` one is its own, too, and has the batch in it before the loss. `normal` is right but for what each replica
    knows of its own batch, which it keeps, and does not train from. `batch` trains from its own batch, and keeps that.
    """

    def train(strategy: Any, record: Any) -> None:
        import tensorflow as tf

        data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(_rows(6)).batch(_BATCH))
        own: dict[str, Any] = {"aggregation": tf.VariableAggregation.MEAN}
        if kind != "shared":
            own = {
                "synchronization": tf.VariableSynchronization.ON_READ,
                "aggregation": tf.VariableAggregation.ONLY_FIRST_REPLICA,
            }
        with strategy.scope():
            w = tf.Variable(np.eye(3, dtype="float32"), name="w", aggregation=tf.VariableAggregation.SUM)
            centre = tf.Variable(tf.zeros(3), trainable=False, name="centre", **own)

        def replica_step(x: Any) -> Any:
            if kind == "early":
                centre.assign(0.5 * centre + 0.5 * tf.reduce_mean(tf.matmul(x, w), axis=0))
            with tf.GradientTape() as tape:
                code = tf.matmul(x, w)
                target = tf.zeros(3) if kind == "normal" else tf.identity(centre)
                target = tf.reduce_mean(code, axis=0) if kind == "batch" else target
                loss = tf.reduce_sum((code - target) ** 2) / _BATCH
            w.assign_sub(0.05 * tape.gradient(loss, w))
            if kind != "early":
                centre.assign(0.5 * centre + 0.5 * tf.reduce_mean(code, axis=0))  # its own copy
            return loss

        step = tf.function(lambda x: strategy.reduce("SUM", strategy.run(replica_step, args=(x,)), axis=None))
        for x in data:
            record.step(loss=step(x))

    return train


def counting(*, reports: bool) -> Any:
    """A program that averages what its replicas count, which is half of what one device counts; nothing reads it."""

    def train(strategy: Any, record: Any) -> None:
        import tensorflow as tf

        data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(_rows()).batch(_BATCH))
        own = {"synchronization": tf.VariableSynchronization.ON_READ, "aggregation": tf.VariableAggregation.MEAN}
        with strategy.scope():
            w = tf.Variable(np.eye(3, dtype="float32"), name="w", aggregation=tf.VariableAggregation.SUM)
            seen = tf.Variable(0.0, trainable=False, name="seen", **own)

        def replica_step(x: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.matmul(x, w) ** 2) / _BATCH
            w.assign_sub(0.05 * tape.gradient(loss, w))
            seen.assign_add(tf.cast(tf.shape(x)[0], tf.float32))
            return loss

        step = tf.function(lambda x: strategy.reduce("SUM", strategy.run(replica_step, args=(x,)), axis=None))
        for x in data:
            record.step(loss=step(x), variables=[w, seen] if reports else [w])

    return train


def pipeline(*, devices: int, scale: float = 1.0) -> Any:
    """A program of two stages, each on a device of its own if there are two; `scale` is on a gradient, where R > 1."""

    def train(strategy: Any, record: Any) -> None:
        import tensorflow as tf

        places = [f"CPU:{min(number, devices - 1)}" for number in range(2)]
        first = np.random.default_rng(1).normal(size=(3, 3)).astype("float32")
        stages = []
        for place in places:
            with tf.device(place):
                stages.append(tf.Variable(first))

        @tf.function
        def step(x: Any) -> Any:
            with tf.GradientTape() as tape:
                with tf.device(places[0]):
                    hidden = tf.tanh(x @ stages[0])
                with tf.device(places[1]):
                    loss = tf.reduce_mean(tf.square(hidden @ stages[1] - 1))
            for variable, gradient in zip(stages, tape.gradient(loss, stages), strict=True):
                variable.assign_sub(0.1 * gradient * (scale if strategy.num_replicas_in_sync > 1 else 1.0))
            return loss

        for x in np.split(_rows(), 4):
            record.step(loss=step(x), variables=stages)

    return train


def resuming(*, lost: bool) -> Any:
    """A program that goes on from what it has saved, which `lost` is without the average of its weights."""

    def train(strategy: Any, record: Any) -> None:
        import tensorflow as tf

        with strategy.scope():
            w = tf.Variable(tf.ones(3), name="w", aggregation=tf.VariableAggregation.SUM)
            average = tf.Variable(tf.ones(3), trainable=False, name="average")
            done = tf.Variable(0, trainable=False, name="done")
        kept = {"w": w, "done": done} if lost else {"w": w, "done": done, "average": average}
        manager = tf.train.CheckpointManager(tf.train.Checkpoint(**kept), str(record.directory), max_to_keep=2)
        manager.restore_or_initialize()

        def replica_step(x: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((tf.linalg.matvec(x, w) - 1) ** 2) / _BATCH
            w.assign_sub(0.1 * tape.gradient(loss, w))
            return loss

        @tf.function
        def step(x: Any) -> Any:
            loss = strategy.reduce("SUM", strategy.run(replica_step, args=(x,)), axis=None)
            average.assign(0.5 * average + 0.5 * w)
            return loss

        data = tf.data.Dataset.from_tensor_slices(_rows(6)).batch(_BATCH).skip(int(done.numpy()))
        for x in strategy.experimental_distribute_dataset(data):
            record.step(loss=step(x), variables=[w])
            done.assign_add(1)
            manager.save()

    return train
