"""Real TensorFlow programs with the mistakes that explanations name, one switch each; one replica hides every one of them.

A small regression of 12 examples a step, and 7 in the last, with hand-written SGD, momentum or Adam; all report what
each replica contributed. They import TensorFlow when they are called, which happens in tasks only.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from harness.program import Program

__all__ = ["accumulating", "commuting", "keras_model", "regression"]

BATCHES = (12, 12, 12, 7)
_SHAPES = {"hidden": (5, 6), "bias": (6,), "out": (6, 1)}


def _program(train: Callable[..., Any], mistake: str, **options: Any) -> Program:
    """The program with a mistake; its reference is that of the program without, and both share one run of it."""
    right = Program.of(functools.partial(train, mistake="", **options))
    wrong = Program.of(functools.partial(train, mistake=mistake, **options))
    return dataclasses.replace(wrong, digest=right.digest)


def regression(mistake: str = "", optimizer: str = "momentum", extra: str = "") -> Program:
    """A step at a time; see the uses of `wrong` for what may go wrong.

    `extra` makes the right program clip its gradients by `norm` or by `value`, or skip an update whose gradients `overflow`.
    """
    return _program(_regression, mistake, optimizer=optimizer, extra=extra)


def _data(count: int) -> tuple[Any, Any, Any]:
    import numpy as np

    random = np.random.default_rng(3)
    x = random.standard_normal((count, 5)).astype(np.float32)
    return np.arange(count), x, np.sin(2 * x.sum(axis=1, keepdims=True)).astype(np.float32)


def _batches(strategy: Any, wrong: str, extra: str) -> Any:
    """The distributed batches: (ids, x, y, how many examples the global batch has)."""
    import numpy as np
    import tensorflow as tf

    count = strategy.num_replicas_in_sync
    ids, x, y = _data(sum(BATCHES))
    if extra == "overflow":
        y[BATCHES[0] + BATCHES[1] - 1] = np.inf
    ends = np.cumsum((0, *BATCHES))
    slices = [np.arange(a, b) for a, b in zip(ends[:-1], ends[1:], strict=True)]

    def shard(context: Any) -> Any:
        """What each replica reads, one after another: step by step, replica by replica."""
        parts = []
        for k, rows in enumerate(slices):
            shares = np.array_split(rows, count)
            if wrong == "overlap":
                shares = [np.concatenate([share[:-1], shares[0][:1]]) for share in shares]
            if wrong == "tail_dropped" and k == len(slices) - 1:
                shares = [share[: len(rows) // count] for share in shares]
            parts += shares
        if wrong == "global_batch":
            parts = [slices[k % len(slices)] for k in range(len(slices) // count * count)]

        def produce() -> Any:
            for k, rows in enumerate(parts):
                total = len(rows) * count if wrong == "global_batch" else len(slices[k // count])
                yield ids[rows], x[rows], y[rows], np.float32(total)

        kinds = [((None,), tf.int64), ((None, 5), tf.float32), ((None, 1), tf.float32), ((), tf.float32)]
        return tf.data.Dataset.from_generator(
            produce, output_signature=tuple(tf.TensorSpec(shape, dtype) for shape, dtype in kinds)
        )

    return strategy.distribute_datasets_from_function(shard)


def _apply(variable: Any, gradient: Any, first: Any, second: Any, kind: str, step: Any) -> None:
    """One update of one copy."""
    import tensorflow as tf

    if kind == "adam":
        first.assign(0.9 * first + 0.1 * gradient)
        second.assign(0.999 * second + 0.001 * gradient**2)
        scale = 0.05 * tf.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        variable.assign_sub(scale * first / (tf.sqrt(second) + 1e-7))
    else:
        first.assign((0.9 if kind == "momentum" else 0.0) * first + gradient)
        variable.assign_sub(0.05 * first)


def _regression(strategy: Any, record: Any, *, mistake: str, optimizer: str, extra: str) -> None:
    import numpy as np
    import tensorflow as tf

    count = strategy.num_replicas_in_sync
    wrong = mistake if count > 1 else ""
    random = np.random.default_rng(7)
    with strategy.scope():
        w, first, second = (
            [tf.Variable(start(shape), name=f"{name}{suffix}") for name, shape in _SHAPES.items()]
            for suffix, start in (
                ("", lambda shape: random.standard_normal(shape).astype(np.float32)),
                ("/momentum", lambda shape: np.zeros(shape, np.float32)),
                ("/velocity", lambda shape: np.zeros(shape, np.float32)),
            )
        )

    def replica_step(step: Any, ids: Any, x: Any, y: Any, total: Any) -> Any:
        local = tf.cast(tf.size(ids), tf.float32)
        with tf.GradientTape() as tape:
            error = (tf.tanh(x @ w[0] + w[1]) @ w[2] - y) ** 2
            penalty = 0.03 * tf.add_n([tf.reduce_sum(kernel**2) for kernel in (w[0], w[2])])
            loss = tf.reduce_sum(error) / total + (penalty if wrong == "regularizer" else penalty / count)
            if wrong in ("mean_then_sum", "hidden_mean_then_sum"):
                loss = tf.reduce_sum(error) / local + penalty
            elif wrong == "mean_of_means":
                loss = (tf.reduce_sum(error) / local + penalty) / count
            elif wrong == "sum_then_mean":
                loss /= count
        gradients = tape.gradient(loss, w)
        if wrong == "clip_first":
            gradients = clipped(gradients)
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients])
        tf.distribute.get_replica_context().merge_call(update, args=(gradients, finite, step))
        return loss, gradients, ids

    def clipped(gradients: Any) -> Any:
        if extra == "norm":
            return tf.clip_by_global_norm(gradients, 0.5)[0]
        return [tf.clip_by_value(gradient, -0.05, 0.05) for gradient in gradients] if extra == "value" else gradients

    def update(strategy: Any, gradients: Any, finite: Any, step: Any) -> None:
        step = strategy.experimental_local_results(step)[0]
        if wrong == "one_replica":
            gradients = [strategy.experimental_local_results(gradient)[0] for gradient in gradients]
        elif wrong != "not_reduced":
            total = tf.distribute.ReduceOp.SUM
            gradients = [strategy.extended.reduce_to(total, g, v) for g, v in zip(gradients, w, strict=True)]
        if extra == "overflow" and wrong != "decide_each":
            everywhere = strategy.experimental_local_results(finite)
            finite = everywhere[0] if wrong == "decide_first" else all(bool(x) for x in everywhere)
        if wrong not in ("not_reduced", "clip_first", "clip_off") and extra in ("norm", "value"):
            whole = clipped([strategy.experimental_local_results(gradient)[0] for gradient in gradients])
            applied[:] = whole
            gradients = whole
        for variable, gradient, one, two in zip(w, gradients, first, second, strict=True):
            strategy.extended.update(variable, guarded, args=(gradient, one, two, finite, step))

    def guarded(variable: Any, gradient: Any, one: Any, two: Any, finite: Any, step: Any) -> None:
        if extra != "overflow" or finite:
            _apply(variable, gradient, one, two, optimizer, step)

    applied: list[Any] = []
    for index, (ids, x, y, total) in enumerate(_batches(strategy, wrong, extra), start=1):
        loss, gradients, seen = strategy.run(replica_step, args=(tf.constant(float(index)), ids, x, y, total))
        if wrong == "hidden_mean_then_sum":
            loss = strategy.reduce(tf.distribute.ReduceOp.MEAN, loss, axis=None)
        record.step(loss=loss, gradients=applied or gradients, variables=[*w, *first, *second], examples=seen)
