"""Sums of whole numbers that are exact or refused, where NumPy would wrap around."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

__all__ = ["exact_sum"]

_INT64_MAX = 2**63 - 1


def exact_sum(arrays: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any] | None:
    """The sum of arrays of integers or booleans of one shape, as int64 or else uint64; None if it fits into neither."""
    import numpy as np

    largest = sum(max(abs(int(array.min())), abs(int(array.max()))) if array.size else 0 for array in arrays)
    if largest <= _INT64_MAX:
        return np.asarray(np.sum([array.astype(np.int64) for array in arrays], axis=0, dtype=np.int64))
    total = np.sum([array.astype(object) for array in arrays], axis=0, dtype=object)  # of Python's own integers
    low, high = int(np.min(total)), int(np.max(total))
    for dtype in (np.int64, np.uint64):
        if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
            return np.asarray(total, dtype)
    return None
