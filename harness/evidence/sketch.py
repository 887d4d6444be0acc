"""Large values by a few numbers of each row, in which relations between replicas' values can still be seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

__all__ = ["sketch"]

_PROJECTED = 16
_CHUNK = 1 << 14


def sketch(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Every row projected onto 16 sums of all its elements, with signs that follow from their positions only.

    Rows stay rows and sums stay sums, so what holds of the values of replicas, that they are the reference's rows or
    add up to it, holds of their sketches too. Sums of n numbers of either sign grow like the root of n.
    """
    import numpy as np

    rows = value.reshape(value.shape[0], -1)
    length = rows.shape[1]
    random = np.random.default_rng(length)
    found = np.zeros((len(rows), _PROJECTED))
    for begin in range(0, length, _CHUNK):
        chunk = rows[:, begin : begin + _CHUNK].astype(np.float64)
        found += chunk @ random.choice([-1.0, 1.0], size=(chunk.shape[1], _PROJECTED))
    sketched: np.ndarray[Any, Any] = (found / length**0.5).astype(value.dtype)
    return sketched
