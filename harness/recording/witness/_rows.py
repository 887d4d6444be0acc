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
_NEXT = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio


def fingerprints(arrays: Sequence[Any]) -> tuple[tuple[int, ...], np.ndarray[Any, Any]]:
    """The positions of the arrays that have a row for each example, and the fingerprints of the examples.

    Those are the first array that has rows, and all that have as many.
    """
    import numpy as np

    found = [(position, np.asarray(array)) for position, array in enumerate(arrays)]
    columns = [(position, array) for position, array in found if array.ndim]
    if not columns:
        return (), np.zeros(0, np.int64)
    rows = len(columns[0][1])
    columns = [(position, array) for position, array in columns if len(array) == rows]
    total = np.zeros(rows, np.uint64)
    with np.errstate(over="ignore"):
        for _, array in columns:
            total = _mixed(total * np.uint64(_NEXT) + _hashed(array, rows))
    return tuple(position for position, _ in columns), (total >> np.uint64(1)).astype(np.int64)


def _hashed(array: np.ndarray[Any, Any], rows: int) -> np.ndarray[Any, Any]:
    import numpy as np

    words = _strings(array, rows) if array.dtype.kind in "OSU" else _words(array, rows)
    length = array.nbytes // max(1, rows)  # else a zero more at the end might be filling
    step = -(-words.shape[1] // _WORDS_MAX) or 1
    words = words[:, ::step]
    mixed = _mixed(words) * _weights(words.shape[1])
    return np.asarray(mixed.sum(axis=1, dtype=np.uint64) + np.uint64(length))


def _words(array: np.ndarray[Any, Any], rows: int) -> np.ndarray[Any, Any]:
    """Each row's bytes as words of 64 bits, filled up with zeros."""
    import numpy as np

    if not rows:
        return np.zeros((0, 0), np.uint64)
    row = np.ascontiguousarray(array).reshape(rows, -1).view(np.uint8).reshape(rows, -1)
    if missing := -row.shape[1] % 8:
        row = np.concatenate([row, np.zeros((rows, missing), np.uint8)], axis=1)
    return row.view(np.uint64)


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
