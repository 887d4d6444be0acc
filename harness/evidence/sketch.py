"""Large values by a few numbers of each row, in which relations between replicas' values can still be seen."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


_SUMS = 16

_PIECE = _SUMS << 16
"""Numbers of a row that are looked at together."""


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
    found = np.stack([_sums(row, signs) for row in rows])
    sketched: np.ndarray[Any, Any] = (found / max(1.0, length / _SUMS) ** 0.5).astype(value.dtype)
    return sketched


def _sums(row: np.ndarray[Any, Any], signs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Its sums, a piece at a time: a row may be all gradients of a large model."""
    import numpy as np

    total = np.zeros(_SUMS)
    for begin in range(0, len(row), _PIECE):
        signed = signs[begin : begin + _PIECE] * row[begin : begin + _PIECE]
        piece = np.zeros((-(-len(signed) // _SUMS), _SUMS))
        piece.reshape(-1)[: len(signed)] = signed
        piece[0] += total  # so that all are added in one order
        total = piece.sum(axis=0)
    return total


@lru_cache(maxsize=4)
def _signs(length: int) -> np.ndarray[Any, Any]:
    import numpy as np

    signs: np.ndarray[Any, Any] = np.random.default_rng(length).integers(0, 2, size=length, dtype=np.int8)
    # In place: there is one for each number of a row.
    signs *= 2
    signs -= 1
    return signs
