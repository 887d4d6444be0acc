"""Large values by a few numbers of each row, in which relations between replicas' values can still be seen."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

__all__ = ["sketch"]

_SUMS = 16


def sketch(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Every row as 16 sums, each over every sixteenth of its elements, with signs that follow from their positions.

    Rows stay rows and sums stay sums, so what holds of the values of replicas, that they are the reference's rows or
    add up to it, holds of their sketches too. An error in one element is an error in one of the sums, which grow like
    the root of the number of their terms. A list of numbers is one row, such as all gradients joined for a reduction.
    """
    import numpy as np

    rows = value.reshape(value.shape[0] if value.ndim > 1 else 1, -1)
    length = rows.shape[1]
    signs = _signs(length)
    found = np.zeros((len(rows), _SUMS))
    for number, row in enumerate(rows):  # one by one, since values are large
        signed = np.zeros(-(-length // _SUMS) * _SUMS)
        signed[:length] = signs * row
        found[number] = signed.reshape(-1, _SUMS).sum(axis=0)
    sketched: np.ndarray[Any, Any] = (found / max(1.0, length / _SUMS) ** 0.5).astype(value.dtype)
    return sketched


@lru_cache(maxsize=4)
def _signs(length: int) -> np.ndarray[Any, Any]:
    import numpy as np

    signs: np.ndarray[Any, Any] = np.random.default_rng(length).integers(0, 2, size=length, dtype=np.int8) * 2 - 1
    return signs
