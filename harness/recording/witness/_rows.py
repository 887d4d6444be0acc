"""A stable number of 63 bits for each example, from those that `tf.fingerprint` gives to its row of each tensor.

That op hashes the bytes of each row (FarmHash64), in any process alike, and leaves Python 8 bytes to look at.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


Examples = tuple[tuple[int, ...], list["np.ndarray[Any, Any]"]]


def examples_of_several(several: Sequence[np.ndarray[Any, Any]], shape: tuple[int, int]) -> list[Examples]:
    """The same for the words of several steps, each with its counts of this shape before it.

    Mostly the counts are the same, and then all is done at once.
    """
    import numpy as np

    size = shape[0] * shape[1]
    found: list[Examples] = []
    for _, alike in itertools.groupby(several, key=lambda words: words[:size].tobytes()):
        words = np.stack(list(alike))
        counts = words[0, :size].reshape(shape)
        if (counts == counts[0, 0]).all():
            columns, examples = _of_equal(words[:, size:], counts)
            found += [(columns, list(each)) for each in examples]
        else:
            found += [examples_of(each[size:], counts) for each in words]
    return found


def examples_of(fingerprints: np.ndarray[Any, Any], counts: np.ndarray[Any, Any]) -> Examples:
    """Which tensors have a row for each example, by position, and for each replica the numbers of its examples.

    Those are the first tensor, and all that have as many rows in each replica.

    Args:
        fingerprints: words of 64 bits, replica by replica those of all rows of all tensors that it was called with, one
            tensor after another.
        counts: how many rows each tensor has, [replicas, tensors].
    """
    import numpy as np

    if (counts == counts[0, 0]).all():
        equal, examples = _of_equal(fingerprints, counts)
        return equal, list(examples)
    words = fingerprints.view(np.uint64)
    replicas, width = counts.shape
    columns = [column for column in range(width) if (counts[:, column] == counts[:, 0]).all()]
    tensors = iter(np.split(words, counts.cumsum()[:-1]))
    found = []
    for _ in range(replicas):
        own = [next(tensors) for _ in range(width)]
        found.append(_mixed(np.stack([own[column] for column in columns])))
    return tuple(columns), found


def _of_equal(
    fingerprints: np.ndarray[Any, Any], counts: np.ndarray[Any, Any]
) -> tuple[tuple[int, ...], np.ndarray[Any, Any]]:
    """Where every tensor has as many rows; of steps too, [..., words] gives [..., replicas, rows]."""
    import numpy as np

    parts = np.ascontiguousarray(fingerprints).view(np.uint64)
    return tuple(range(counts.shape[1])), _mixed(parts.reshape(*parts.shape[:-1], *counts.shape, counts[0, 0]))


def _mixed(words: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """One number for each of the rows, [..., tensors, rows]; 63 bits of it."""
    import numpy as np

    # Fingerprints are mixed well, so that a sum of multiples by odd numbers is as good as another hash of them.
    total = _weights(words.shape[-2]) @ words + np.uint64(2 * words.shape[-2])
    numbers: np.ndarray[Any, Any] = (total >> np.uint64(1)).view(np.int64)
    return numbers


@lru_cache(maxsize=16)
def _weights(count: int) -> np.ndarray[Any, Any]:
    """Odd numbers, the same in each process, that tell a word's place."""
    import numpy as np

    return np.random.default_rng(20).integers(0, 2**63, count, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
