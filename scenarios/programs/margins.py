"""Ten one-against-all hinge classifiers on integer pixels, cut into the batches that sharding finds hardest; all
numbers exact.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scenarios.programs import digits

if TYPE_CHECKING:
    import numpy as np

# What a loss is divided by, in every batch; a power of two, so that dividing is exact.
GLOBAL_BATCH = 16
# Three replicas do not divide 16, four get 1 each of 4, and of 1 all but the first get nothing.
BATCHES = (16, 16, 4, 1)
EVEN = (12, 12, 12)
MARGIN = 2.0


@dataclass(frozen=True)
class Margins:
    """Ids (int64, [n]), pixels (float32, [n, 64], integers 0-4), targets (float32, [n, 10], +1 or -1), labels (int64,
    [n]).
    """

    ids: np.ndarray[Any, Any]
    pixels: np.ndarray[Any, Any]
    targets: np.ndarray[Any, Any]
    labels: np.ndarray[Any, Any]


@functools.cache
def load(count: int) -> Margins:
    """The first `count` digits.

    A gradient of the hinge loss sums +pixels and -pixels. Divided by a power of two, and with weights that are dyadic
    as well, each number of a short training fits into the 24 bits of a float32, in any order of summation.
    """
    import numpy as np

    data = digits.load(count)
    pixels = np.floor(data.images.reshape(count, 64) * 4).astype(np.float32)
    targets = np.where(data.labels[:, None] == np.arange(digits.CLASSES), 1, -1).astype(np.float32)
    return Margins(ids=data.ids, pixels=pixels, targets=targets, labels=data.labels)


def dataset(batches: tuple[int, ...] = BATCHES) -> Any:
    """A `tf.data.Dataset` of (ids, pixels, targets, labels) with batches of exactly these sizes, in file order."""
    import tensorflow as tf

    data = load(sum(batches))
    whole = tf.data.Dataset.from_tensor_slices((data.ids, data.pixels, data.targets, data.labels))
    pieces = [whole.skip(sum(batches[:i])).take(size).batch(size) for i, size in enumerate(batches)]
    return functools.reduce(lambda left, right: left.concatenate(right), pieces)


def hinge(scores: Any, targets: Any) -> Any:
    """The loss of each example and class."""
    import tensorflow as tf

    return tf.nn.relu(MARGIN - targets * scores)
