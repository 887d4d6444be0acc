"""Small training programs for the harness's own tests: exact and real ones, with a switch per mistake.

They import TensorFlow when they are called, which happens in tasks only. Of each mistake the default strategy, and so
the reference, is free: the mistakes are such that one replica hides them.
"""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

BATCH = 8
STEPS = 4
_STEP_SIZE = 0.5


def exact(mistake: str = "", note: str = "") -> Callable[[Any, Any], None]:
    """Gradient descent on `mean(x @ w)`: integers, a batch of 8 and step size 1/2, so every value is exact in float32.

    Mistakes: `mean_then_sum`, `example_dropped`, `copy_off`, `iterator_restarted`, `step_skipped`, `applied_twice`,
    `one_ulp`. `note` is a file that gets one line for every run of the program in any process.
    """
    return functools.partial(_exact, mistake=mistake, note=note)


def _exact(strategy: Any, record: Any, *, mistake: str, note: str) -> None:
    import numpy as np
    import tensorflow as tf

    if note:
        with Path(note).open("a") as file:
            file.write("ran\n")
    wrong = mistake if strategy.num_replicas_in_sync > 1 else ""
    ids = np.arange(BATCH * STEPS)
    features = np.stack([ids % 5 - 1, ids % 3 - 2], axis=1).astype(np.float32)
    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((ids, features)).batch(BATCH))
    with strategy.scope():
        w = tf.Variable([1.0, 2.0], name="w", aggregation=tf.VariableAggregation.SUM)

    def replica_step(ids: Any, x: Any) -> tuple[Any, Any, Any]:
        kept = ids != 5 if wrong == "example_dropped" else ids >= 0
        ids, x = tf.boolean_mask(ids, kept), tf.boolean_mask(x, kept)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(x @ w[:, None]) / BATCH
            if wrong == "mean_then_sum":
                loss = tf.reduce_mean(x @ w[:, None])
        gradient = tape.gradient(loss, w)
        w.assign_sub(_STEP_SIZE * gradient)
        if wrong == "applied_twice":
            w.assign_sub(_STEP_SIZE * gradient)
        return loss, gradient, ids

    iterator = iter(dataset)
    for step in range(STEPS - (wrong == "step_skipped")):
        iterator = iter(dataset) if wrong == "iterator_restarted" else iterator
        losses, gradients, seen = strategy.run(replica_step, args=next(iterator))
        if wrong == "copy_off" and step == 1 and not os.environ["LOCKSTEP_TASK"].startswith("worker:0"):
            strategy.experimental_local_results(w)[-1].assign_add([0.0, 1.0])
        loss = strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)
        if wrong == "one_ulp" and step == 2:
            loss = np.nextafter(loss.numpy(), np.float32(np.inf))
        record.step(loss=loss, gradients={"w": gradients}, variables=[w], examples=seen)
    record.final(variables=[w], predictions=features @ w.numpy())


def mlp(mistake: str = "") -> Callable[[Any, Any], None]:
    """A real model: two layers with tanh, squared error, a batch of 64 and momentum; ten steps.

    Mistakes: `example_dropped` (one of the 64 does not count), `weight_changed` (by its data), `divisor` (the batch
    size is taken for 63), `tf32` (the factors of its products have 10 bits of mantissa, as on a GPU that multiplies in
    TF32).
    """
    return functools.partial(_mlp, mistake=mistake)


def _mlp(strategy: Any, record: Any, *, mistake: str) -> None:
    import numpy as np
    import tensorflow as tf

    wrong = mistake if strategy.num_replicas_in_sync > 1 else ""
    divisor = 63 if wrong == "divisor" else 64
    random = np.random.default_rng(1)
    x = random.standard_normal((64, 6)).astype(np.float32)
    y = np.sin(x.sum(axis=1, keepdims=True)).astype(np.float32)
    dropped, weight = x[17], np.ones((64, 1), np.float32)
    weight[17] = float(wrong != "weight_changed")
    dataset = tf.data.Dataset.from_tensor_slices((x, y, weight)).batch(64).repeat()
    with strategy.scope():
        shapes = {"hidden": (6, 12), "bias": (12,), "out": (12, 1)}
        kernels = [
            tf.Variable(
                random.standard_normal(shape).astype(np.float32) / 2, name=name, aggregation=tf.VariableAggregation.SUM
            )
            for name, shape in shapes.items()
        ]
        slots = [
            tf.Variable(tf.zeros_like(kernel), name=f"{name}/momentum", aggregation=tf.VariableAggregation.SUM)
            for name, kernel in zip(shapes, kernels, strict=True)
        ]

    def factor(x: Any) -> Any:
        """As it is, or of 11 significant bits, by Veltkamp's splitting (Numerische Mathematik 18, 1971, p. 224)."""
        if wrong != "tf32":
            return x
        scaled = tf.stop_gradient(x) * (2.0**13 + 1)
        return x + tf.stop_gradient((scaled - (scaled - x)) - x)

    def replica_step(x: Any, y: Any, weight: Any) -> tuple[Any, Any]:
        with tf.GradientTape() as tape:
            hidden = tf.tanh(factor(x) @ factor(kernels[0]) + kernels[1])
            error = factor(hidden) @ factor(kernels[2]) - y
            if wrong == "example_dropped":
                weight = tf.where(tf.reduce_all(x == dropped, axis=1, keepdims=True), 0.0, weight)
            loss = tf.reduce_sum(weight * error**2) / divisor
        gradients = tape.gradient(loss, kernels)
        everywhere = tf.distribute.get_replica_context().all_reduce("sum", gradients)
        share = tf.distribute.get_replica_context().num_replicas_in_sync
        for kernel, slot, gradient in zip(kernels, slots, everywhere, strict=True):
            # SUM adds up what the replicas assign, and each of them assigns its share.
            slot.assign((0.9 * slot + gradient) / share)
            kernel.assign_sub(0.1 * slot / share)
        return loss, gradients

    run = tf.function(lambda batch: strategy.run(replica_step, args=batch))
    iterator = iter(strategy.experimental_distribute_dataset(dataset))
    for _ in range(10):
        losses, gradients = run(next(iterator))
        loss = strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)
        record.step(loss=loss, gradients=gradients, variables=[*kernels, *slots])


def silent(strategy: Any, record: Any) -> None:
    """Calls both methods and reports nothing."""
    record.step(gradients=[None], metrics={})
    record.final()


def one_value(strategy: Any, record: Any) -> None:
    """The smallest program that every replica takes part in."""
    strategy.run(lambda: None)
    record.step(loss=1.0)


def alone(strategy: Any, record: Any) -> None:
    """The same training in every task, outside of the strategy's scope: right numbers, and nobody to agree with."""
    import tensorflow as tf

    w = tf.Variable(1.0, name="w")
    strategy.run(lambda: None)
    for _ in range(3):
        w.assign_sub(0.25 * w)
        record.step(loss=w * w, variables=[w])


def worker_that(fate: str) -> Callable[[Any, Any], None]:
    """Two steps, after which the last worker `raises`, `exits` or is `killed`; one process survives all of that."""
    return functools.partial(_worker_that, fate=fate)


def _worker_that(strategy: Any, record: Any, *, fate: str) -> None:
    record.step(loss=1.0)
    record.step(loss=2.0)
    if strategy.num_replicas_in_sync == 1 or not os.environ["LOCKSTEP_TASK"].endswith(":1"):
        return
    if fate == "raises":
        raise ArithmeticError("worker 1 miscounted")
    if fate == "exits":
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)


def hanging(strategy: Any, record: Any) -> None:
    """One step, then a wait for something that never comes, unless there is one replica only."""
    import threading

    def wait_for_godot() -> None:
        threading.Event().wait()

    record.step(loss=1.0)
    if strategy.num_replicas_in_sync > 1:
        wait_for_godot()
