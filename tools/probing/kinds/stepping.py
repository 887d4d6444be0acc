"""A loop around what classes do with a batch: replicas train on their rows, and all state is recorded."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any

from tools.probing.kinds.protocol import Form, Keras, Work

_EVEN, _UNEVEN = (12, 12), (12, 7, 3)
_SHAPES = {
    "vector": (8,),
    "sequence": (6, 4),
    "image": (6, 6, 3),
    "volume": (4, 4, 4, 2),
    "frames": (3, 5, 2),
    "video": (3, 4, 4, 2),
    "volumes": (2, 3, 3, 3, 2),
}


def examples(count: int, names: Collection[str]) -> dict[str, Any]:
    """Inputs of these names, each of a shape that layers are given."""
    import numpy as np

    random = np.random.default_rng(0)
    made: dict[str, Any] = {
        name: random.uniform(0, 1, (count, *shape)).astype(np.float32) for name, shape in _SHAPES.items()
    }
    made["tokens"] = random.integers(0, 8, (count, 6)).astype(np.int32)
    made["words"] = random.choice(["a", "b c", "c a b", "d"], count)
    made["label"] = np.eye(4, dtype=np.float32)[random.integers(0, 4, count)]
    return {name: array for name, array in made.items() if name in names}


def step_by_step(
    strategy: Any,
    record: Any,
    keras: Keras,
    forms: Mapping[str, Form],
    circumstance: str,
    *,
    work: Callable[[Keras, Mapping[str, Form], int], Work],
) -> None:
    """Two or three steps of these forms, side by side; records state, losses and results.

    Args:
        strategy: the strategy.
        record: what is told of it.
        keras: the module of the Keras.
        forms: what is tried.
        circumstance: one of `CIRCUMSTANCES`.
        work: makes the forms below the scope, given also the rows of a whole batch.
    """
    import tensorflow as tf

    if circumstance == "half":
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
    batches = _UNEVEN if circumstance == "uneven" else _EVEN
    with strategy.scope():
        made = work(keras, forms, batches[0])
    compute = made.compute
    if circumstance == "compiled":
        compute = tf.function(compute, jit_compile=True, autograph=False)

    def replica_step(batch: Any) -> Any:
        found, gradients = compute(batch)
        made.update(gradients)
        return found

    def step(batch: Any) -> Any:
        found = strategy.run(replica_step, args=(batch,))
        return {name: strategy.reduce(tf.distribute.ReduceOp.SUM, loss, axis=None) for name, loss in found.items()}

    whole = tf.data.Dataset.from_tensor_slices(examples(sum(batches), made.inputs))
    pieces = [whole.skip(sum(batches[:index])).take(size).batch(size) for index, size in enumerate(batches)]
    data = functools.reduce(lambda left, right: left.concatenate(right), pieces)
    batches_given = strategy.experimental_distribute_dataset(data)
    if circumstance != "eager":
        # Batches of one size have their shapes in the graph, and of several there is one graph too.
        signature = [batches_given.element_spec] if circumstance == "uneven" else None
        step = tf.function(step, input_signature=signature, autograph=False)
    for batch in batches_given:
        found = step(batch)
        record.step(metrics={**found, **made.results()}, variables=dict(made.variables()))
