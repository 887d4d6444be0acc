"""Calls of `tf.distribute` that libraries make more often than trainings do: means over an axis, gathers, scatters."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

Form = Literal["means", "gathers", "given", "slices", "scatters"]
_ROWS, _WIDE = 8, 3


def make(form: Form) -> Callable[[Any, Any], None]:
    """Reports what comes of three batches of 8, 7 and 3 rows; the same numbers whatever the number of replicas.

    `means` reduces with MEAN and an axis, `gathers` brings uneven rows together in two ways, `given` those that the
    step was given, as they are, `slices` adds up `tf.IndexedSlices`, and `scatters` adds them to a variable whose
    aggregation is MEAN.
    """
    return functools.partial(_call, form=form)


def _call(strategy: Any, record: Any, *, form: Form) -> None:
    import numpy as np
    import tensorflow as tf

    with strategy.scope():
        table = tf.Variable(tf.zeros([_ROWS, _WIDE]), name="table", aggregation=tf.VariableAggregation.MEAN)
    found = functools.partial(_CALLS[form], strategy, table)
    if form in ("means", "gathers", "given"):
        found = tf.function(found, reduce_retracing=True)
    rows = (np.arange(18 * _WIDE, dtype=np.float32) % 7).reshape(18, _WIDE)
    for begin, end in ((0, 8), (8, 15), (15, 18)):
        data = tf.data.Dataset.from_tensors(rows[begin:end]).rebatch(end - begin)
        (batch,) = strategy.experimental_distribute_dataset(data)
        record.step(metrics=found(batch), variables=[table])


def _means(strategy: Any, table: Any, batch: Any) -> dict[str, Any]:
    import tensorflow as tf

    squares = strategy.run(lambda rows: rows * rows, args=(batch,))
    return {"mean": strategy.reduce(tf.distribute.ReduceOp.MEAN, squares, axis=0)}


def _gathers(strategy: Any, table: Any, batch: Any) -> dict[str, Any]:
    import tensorflow as tf

    doubled = strategy.run(lambda rows: rows * 2.0, args=(batch,))
    # Not in their order, which is that of the replicas.
    whole = tf.sort(strategy.gather(doubled, axis=0), axis=0)
    places = tf.range(tf.cast(tf.shape(whole)[0], tf.float32))[:, None]
    return {"rows": tf.reduce_sum(whole * places), "largest": _largest(strategy, batch, 2.0)}


def _given(strategy: Any, table: Any, batch: Any) -> dict[str, Any]:
    return {"largest": _largest(strategy, batch)}


def _largest(strategy: Any, batch: Any, factor: float | None = None) -> Any:
    """Of each column, by `all_gather` of the rows: as they are given, or times a factor."""
    import tensorflow as tf

    def largest(rows: Any) -> Any:
        own = rows if factor is None else rows * factor
        return tf.reduce_max(tf.distribute.get_replica_context().all_gather(own, axis=0), axis=0)

    return _one(strategy, strategy.run(largest, args=(batch,)))


def _slices(strategy: Any, table: Any, batch: Any) -> dict[str, Any]:
    import tensorflow as tf

    def add_up(rows: Any) -> Any:
        numbers = tf.cast(tf.reduce_sum(rows, axis=1), tf.int32) % _ROWS
        slices = tf.IndexedSlices(rows, numbers, tf.constant([_ROWS, _WIDE]))
        return tf.convert_to_tensor(tf.distribute.get_replica_context().all_reduce("SUM", slices))

    return {"total": _one(strategy, strategy.run(tf.function(add_up, reduce_retracing=True), args=(batch,)))}


def _scatters(strategy: Any, table: Any, batch: Any) -> dict[str, Any]:
    import tensorflow as tf

    def add(rows: Any) -> None:
        table.scatter_add(tf.IndexedSlices(tf.ones([2, _WIDE]), tf.constant([1, 4])))

    strategy.run(tf.function(add, reduce_retracing=True), args=(batch,))
    return {}


def _one(strategy: Any, values: Any) -> Any:
    return strategy.experimental_local_results(values)[0]


_CALLS: dict[Form, Callable[..., dict[str, Any]]] = {
    "means": _means,
    "gathers": _gathers,
    "given": _given,
    "slices": _slices,
    "scatters": _scatters,
}
