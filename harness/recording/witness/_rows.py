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

__all__ = ["examples_of"]


def examples_of(replicas: Sequence[Sequence[Any]]) -> tuple[tuple[int, ...], list[np.ndarray[Any, Any]]]:
    """Which tensors have a row for each example, by position, and for each replica the numbers of its examples.

    Those are the first tensor, and all that have as many rows in each replica.

    Args:
        replicas: for each replica the fingerprints of all tensors that it was called with: bytes, [rows, 8].
    """
    import numpy as np

    rows = [len(tensors[0]) for tensors in replicas]
    columns = [
        position
        for position in range(len(replicas[0]))
        if all(len(tensors[position]) == count for tensors, count in zip(replicas, rows, strict=True))
    ]
    words = np.concatenate([np.concatenate([tensors[k] for tensors in replicas]) for k in columns], axis=1)
    # Fingerprints are mixed well, so that a sum of multiples by odd numbers is as good as another hash of them.
    total = (words.view(np.uint64) * _weights(len(columns))).sum(axis=1) + np.uint64(2 * len(columns))
    total = (total >> np.uint64(1)).view(np.int64)
    ends = list(itertools.accumulate(rows))
    return tuple(columns), [total[end - count : end] for end, count in zip(ends, rows, strict=True)]


@lru_cache(maxsize=16)
def _weights(count: int) -> np.ndarray[Any, Any]:
    """Odd numbers, the same in each process, that tell a word's place."""
    import numpy as np

    return np.random.default_rng(20).integers(0, 2**63, count, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
