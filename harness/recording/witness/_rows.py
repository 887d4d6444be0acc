"""A stable number of 63 bits for each row of a batch; rows of other bits have, but for one in 2^63, another number."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

__all__ = ["fingerprints"]

_WORDS_MAX = 4096
"""Of a longer row (32 KiB) as many words are looked at, evenly apart: images differ in more than a few of them."""

_MIX = 0xFF51AFD7ED558CCD  # of MurmurHash3's finalizer


def fingerprints(replicas: Sequence[Sequence[Any]]) -> tuple[tuple[int, ...], list[np.ndarray[Any, Any]]]:
    """Which arrays have a row for each example, by position, and for each replica the fingerprints of its examples.

    Those are the first array that has rows, and all that have as many in each replica.

    Args:
        replicas: for each replica, the arrays that it was called with.
    """
    import numpy as np

    ranks = [array.ndim for array in replicas[0]] if replicas else []
    first = next((position for position, rank in enumerate(ranks) if rank), None)
    if first is None:
        return (), [np.zeros(0, np.int64) for _ in replicas]
    rows = [len(arrays[first]) for arrays in replicas]
    columns = [
        position
        for position, rank in enumerate(ranks)
        if rank and all(len(arrays[position]) == count for arrays, count in zip(replicas, rows, strict=True))
    ]
    parts = [[arrays[position] for arrays in replicas] for position in columns]
    words = [_words(each[0] if len(each) == 1 else np.concatenate(each), sum(rows)) for each in parts]
    mixed = _mixed(words[0] if len(words) == 1 else np.concatenate(words, axis=1)) * _weights(
        sum(len(w.T) for w in words)
    )
    total = (_mixed(mixed.sum(axis=1, dtype=np.uint64)) >> np.uint64(1)).astype(np.int64)
    return tuple(columns), np.split(total, np.cumsum(rows)[:-1])


def _words(array: np.ndarray[Any, Any], rows: int) -> np.ndarray[Any, Any]:
    """Each row's bytes as words of 64 bits, and how many bytes they are: the last word is filled up with zeros."""
    import numpy as np

    if array.dtype.kind in "OSU":
        found = _strings(array, rows)
    elif rows and array.size:
        row = np.ascontiguousarray(array).reshape(rows, -1).view(np.uint8)
        if missing := -row.shape[1] % 8:
            row = np.concatenate([row, np.zeros((rows, missing), np.uint8)], axis=1)
        found = row.view(np.uint64)
    else:
        found = np.zeros((rows, 0), np.uint64)
    step = -(-found.shape[1] // _WORDS_MAX) or 1
    length = np.full((rows, 1), array.nbytes // max(1, rows), np.uint64)
    return np.concatenate([found[:, ::step], length], axis=1)


def _strings(array: np.ndarray[Any, Any], rows: int) -> np.ndarray[Any, Any]:
    import numpy as np

    def word(value: Any) -> int:
        data = value if isinstance(value, bytes) else str(value).encode()
        return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")

    flat = np.asarray(array, object).ravel()
    return np.array([word(value) for value in flat], np.uint64).reshape(rows, -1 if rows else 0)


def _mixed(words: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Words whose every bit depends on every bit of what they were."""
    import numpy as np

    mixed = words ^ (words >> np.uint64(33))
    mixed = mixed * np.uint64(_MIX)
    return np.asarray(mixed ^ (mixed >> np.uint64(29)))


@lru_cache(maxsize=16)
def _weights(count: int) -> np.ndarray[Any, Any]:
    """Odd numbers, the same in each process, that tell a word's place."""
    import numpy as np

    return np.random.default_rng(20).integers(0, 2**63, count, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
