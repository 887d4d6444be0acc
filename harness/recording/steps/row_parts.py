"""Batches that are no dense tensors, as dense parts: each part of several replicas can be put one after another.

A ragged tensor is the lengths of its rows and its values. A sparse one is how many values each row has, their places
within it, and the values.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.evidence.steps.store import data_of

if TYPE_CHECKING:
    import numpy as np


def row_parts(value: Any) -> tuple[Any, ...]:
    """The parts of a batch, of which the first has an element for each row; a dense batch is its own part."""
    import tensorflow as tf

    if isinstance(value, tf.RaggedTensor):
        return (*value.nested_row_lengths(), value.flat_values)
    if isinstance(value, tf.SparseTensor):
        rows = value.dense_shape[0]
        counts = tf.math.unsorted_segment_sum(tf.ones_like(value.indices[:, 0]), value.indices[:, 0], rows)
        return (counts, value.indices[:, 1:], value.values)
    return (value,)


def composed(value: Any, parts: Sequence[Any]) -> Any:
    """A batch of the kind of `value`, from other parts."""
    import tensorflow as tf

    if isinstance(value, tf.RaggedTensor):
        *lengths, flat = parts
        return tf.RaggedTensor.from_nested_row_lengths(flat, lengths, validate=False)
    if isinstance(value, tf.SparseTensor):
        counts, places, values = parts
        rows = tf.size(counts, tf.int64)
        # Each batch may be as wide as its longest row.
        width = tf.maximum(value.dense_shape[1:], tf.reduce_max(places, axis=0) + 1)
        indices = tf.concat([tf.repeat(tf.range(rows), counts)[:, None], places], axis=1)
        return tf.SparseTensor(indices, values, tf.concat([[rows], width], axis=0))
    return parts[0]


def numbers_of_rows(parts: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """A dense batch as it is, and of another one a number for each row, which tells its content."""
    import numpy as np

    if len(parts) == 1:
        return parts[0]
    hashes = [hashlib.blake2b(digest_size=8) for _ in parts[0]]
    bounds = np.arange(len(hashes) + 1)
    for part, following in itertools.zip_longest(parts, parts[1:]):
        for each, start, end in zip(hashes, bounds, bounds[1:], strict=False):
            each.update(data_of(part[start:end]))
        if following is not None and part.ndim == 1:  # lengths of what follows
            bounds = np.concatenate([[0], np.cumsum(part)])[bounds]
    return np.array([int.from_bytes(each.digest(), "little", signed=True) for each in hashes], np.int64)
