"""What of tensors is kept: dense numbers, up to a budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

LOSS = "loss"

_BYTES_MAX = 8 << 20
"""Of all gradients of one replica in a step: two million numbers of float32."""
_WHOLE_MIN = 4096
"""Fewer elements are always kept."""


def dense(value: Any) -> Any:
    """A gradient as one tensor; None where that cannot be, or would be large."""
    import tensorflow as tf

    if isinstance(value, tf.Tensor):
        return value
    if isinstance(value, tf.IndexedSlices) and value.dense_shape is not None:
        shape = tf.get_static_value(value.dense_shape)
        if shape is not None and math.prod(int(size) for size in shape) * value.dtype.size <= _BYTES_MAX:
            return tf.convert_to_tensor(value)
    return None


def within_budget(values: Sequence[Any]) -> list[Any] | None:
    """These as they are; if they are large, each k-th element of those that are, the same ones in every process.

    Whether gradients are a multiple of others is seen in a part of them too, since each element is taken alike. None
    where the graph does not know how large they are.
    """
    import tensorflow as tf

    sizes = [value.shape.num_elements() for value in values]
    if None in sizes:
        return None
    bytes_ = sum(size * value.dtype.size for size, value in zip(sizes, values, strict=True))
    stride = math.ceil(bytes_ / _BYTES_MAX)
    if stride < 2:
        return list(values)
    return [
        value if size < _WHOLE_MIN else tf.reshape(value, [-1])[::stride]
        for size, value in zip(sizes, values, strict=True)
    ]
