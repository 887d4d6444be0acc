"""What of a tensor is kept: dense numbers, up to a budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

__all__ = ["LOSS", "dense", "is_small"]

LOSS = "loss"

_BYTES_MAX = 8 << 20
"""Of all gradients of one replica in a step: two million numbers of float32."""


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


def is_small(values: Sequence[Any]) -> bool:
    """Whether all of these can be kept at each step."""
    sizes = [value.shape.num_elements() for value in values]
    if None in sizes:
        return False
    bytes_ = sum(size * value.dtype.size for size, value in zip(sizes, values, strict=True))
    return bool(bytes_ <= _BYTES_MAX)
