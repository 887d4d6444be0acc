"""The training that probes are: one loop around what a kind of classes does with a batch."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from tools.probing.kinds import KINDS

__all__ = ["CIRCUMSTANCES", "train"]

_EVEN, _UNEVEN = (12, 12), (12, 7, 3)
# What is special about a training, by name.
CIRCUMSTANCES = {
    "even": "12 and 12 rows, in a `tf.function`",
    "uneven": "12, 7 and 3 rows, in a `tf.function`",
    "eager": "12 and 12 rows, eagerly",
    "half": "12 and 12 rows in the policy `mixed_bfloat16`",
    "compiled": "12 and 12 rows by XLA: `tf.function(jit_compile=True)` in the replicas",
}


def train(strategy: Any, record: Any, *, kind: str, package: str, forms: tuple[str, ...], circumstance: str) -> None:
    """Two or three steps of these forms of a kind's classes, side by side; records state, losses and results."""
    import tensorflow as tf

    keras = importlib.import_module(package)
    keras.utils.set_random_seed(1)
    if circumstance == "half":
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
    chosen = KINDS[kind]
    known = chosen.forms(keras)
    batches = _UNEVEN if circumstance == "uneven" else _EVEN
    with strategy.scope():
        work = chosen.work(keras, {name: known[name] for name in forms}, strategy.num_replicas_in_sync, batches[0])
    replica_step = work.replica_step
    if circumstance == "compiled":
        replica_step = tf.function(replica_step, jit_compile=True)

    def step(batch: Any) -> Any:
        found = strategy.run(replica_step, args=(batch,))
        return {name: strategy.reduce(tf.distribute.ReduceOp.SUM, loss, axis=None) for name, loss in found.items()}

    if circumstance != "eager":
        step = tf.function(step, reduce_retracing=True)
    whole = tf.data.Dataset.from_tensor_slices(chosen.examples(sum(batches)))
    pieces = [whole.skip(sum(batches[:index])).take(size).batch(size) for index, size in enumerate(batches)]
    data = functools.reduce(lambda left, right: left.concatenate(right), pieces)
    for batch in strategy.experimental_distribute_dataset(data):
        found = step(batch)
        record.step(metrics={**found, **work.results()}, variables=dict(work.variables()))
