"""A loop under `PreemptionCheckpointHandler`, whose workers are told by a watcher that they are to be preempted."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

from harness import StrategyCase

# The handler looks for a preemption once a second; this many steps take longer than that.
_STEPS_MAX = 20_000
_AFTER = 3
FIT_STEPS = 10


class Preempted(Exception):
    """Raised by the handler's `exit_fn`, in place of `sys.exit`."""


def train(case: StrategyCase, folder: Path, *, worker: int | None, steps: int = _STEPS_MAX) -> tuple[str, int, float]:
    """Add 1/8 on every replica in each step, until the watcher of `worker` has spoken or `steps` are done.

    Returns:
        `preempted` or `finished`, the steps that the checkpointed counter says, and the sum.
    """
    import tensorflow as tf

    strategy = case.build()
    with strategy.scope():
        total = tf.Variable(0.0, aggregation=tf.VariableAggregation.SUM)
    done = tf.Variable(0, dtype=tf.int64)
    told = threading.Event()

    def leave() -> None:
        raise Preempted

    config = tf.distribute.experimental.TerminationConfig(
        termination_watcher_fn=told.is_set, exit_fn=leave, grace_period=0
    )
    resolver = strategy.cluster_resolver
    handler = tf.distribute.experimental.PreemptionCheckpointHandler(
        resolver, tf.train.Checkpoint(total=total, done=done), str(folder), config
    )

    @tf.function
    def step() -> None:
        strategy.run(lambda: total.assign_add(0.125))
        done.assign_add(1)

    first = int(done.numpy())
    try:
        while int(done.numpy()) < steps:
            handler.run(step)
            if resolver.task_id == worker and int(done.numpy()) == first + _AFTER:
                told.set()
    except Preempted:
        return "preempted", int(done.numpy()), float(total.numpy())
    return "finished", int(done.numpy()), float(total.numpy())


def restore_elsewhere(case: StrategyCase, folder: Path) -> tuple[int, list[float]]:
    """Restore the handler's checkpoint under another strategy, without a handler: the steps, and every copy."""
    import tensorflow as tf

    strategy = case.build()
    with strategy.scope():
        total = tf.Variable(-7.0)
    done = tf.Variable(-7, dtype=tf.int64)
    latest: Any = tf.train.latest_checkpoint(folder)
    tf.train.Checkpoint(total=total, done=done).restore(latest).expect_partial().assert_existing_objects_matched()
    return int(done.numpy()), [float(copy.numpy()) for copy in strategy.experimental_local_results(total)]


def fit(case: StrategyCase, folder: Path, *, worker: int) -> int:
    """`fit` of tf_keras with `BackupAndRestore(save_before_preemption=True)`: how many of ten batches were done.

    `worker` sends itself SIGTERM, the sign of a preemption, after the third batch.
    """
    import tensorflow as tf
    import tf_keras

    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # unless a handler takes it
    with case.build().scope():
        model = tf_keras.Sequential([tf_keras.Input((1,)), tf_keras.layers.Dense(1, kernel_initializer="zeros")])
        model.compile(tf_keras.optimizers.SGD(0.125, momentum=0.5), loss=lambda target, output: -target * output)
    batches = []

    class Signal(tf_keras.callbacks.Callback):  # type: ignore[misc]  # tf_keras is untyped
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            batches.append(batch)
            if len(batches) == _AFTER and os.environ["LOCKSTEP_TASK"] == f"worker:{worker}":
                os.kill(os.getpid(), signal.SIGTERM)

    backup = tf_keras.callbacks.BackupAndRestore(str(folder), save_freq=False, save_before_preemption=True)
    data = tf.data.Dataset.from_tensors((tf.ones((4, 1)), tf.ones((4, 1)))).repeat()
    model.fit(data, epochs=1, steps_per_epoch=FIT_STEPS, verbose=0, callbacks=[backup, Signal()])
    return len(batches)
