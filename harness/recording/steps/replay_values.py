"""What a process that follows gives its program in place of tensors of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def per_replica(values: Sequence[Any]) -> Any:
    """One value for each replica."""
    from tensorflow.python.distribute import values as distributed

    return distributed.PerReplica(tuple(values))


def with_replay_values(
    own: Sequence[Any],
    recall: Callable[..., list[Any]],
    parameters: Sequence[Any] = (),
    shapes: Sequence[Any] = (),
    name: str | None = None,
) -> list[Any]:
    """What `recall` makes of tensors, now or each time that the graph is run which is being built.

    Args:
        own: the tensors.
        recall: gets their values, and those of the parameters.
        parameters: other tensors.
        shapes: as far as it is known, of each of what comes out.
        name: of the operation.
    """
    import numpy as np
    import tensorflow as tf

    tensors = [tf.convert_to_tensor(each) for each in own]
    if tf.executing_eagerly():
        values = recall(*(np.asarray(each) for each in (*tensors, *parameters)))
        return [tf.constant(value, tensor.dtype) for value, tensor in zip(values, tensors, strict=True)]

    def called(*values: Any) -> Any:
        return recall(*values)

    dtypes = [tensor.dtype for tensor in tensors]
    found = tf.numpy_function(called, [*tensors, *parameters], dtypes, stateful=True, name=name)
    found = list(found) if isinstance(found, (list, tuple)) else [found]
    for value, shape in zip(found, shapes, strict=True):
        value.set_shape(shape)
    return found
