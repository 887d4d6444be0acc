"""Keeps the values of tensors, large ones as sketches, within a budget."""

from __future__ import annotations

import threading
from typing import Any

from harness.evidence.trace import Array
from harness.evidence.watched import Taken, digest_of

__all__ = ["FULL_BYTES", "Values"]

FULL_BYTES = 1 << 16
"""A value of no more bytes is kept as it is."""

BUDGET_BYTES = 1 << 28
"""What all values of one step in one process may take; what comes after is not kept."""

_PROJECTED = 16


class Values:
    """What tensors held, in the order in which it was seen; several threads add to it.

    Attributes:
        taken: the values.
        lost: how many there was no room for.
    """

    def __init__(self, budget: int = BUDGET_BYTES) -> None:
        self.taken: list[Taken] = []
        self.lost = 0
        self._left = budget
        self._lock = threading.Lock()

    def take(self, tensor: int, value: Any) -> None:
        """Keep a value of a tensor, which is an array."""
        import numpy as np

        value = np.asarray(value)
        if value.dtype.kind not in "fciub" and value.dtype.name != "bfloat16":
            return
        whole = Array.of(value)
        sketched = value.nbytes > FULL_BYTES and value.dtype.kind == "f" and value.ndim > 1
        kept = Array.of(sketch(value)) if sketched else whole
        with self._lock:
            if len(kept.data) > self._left:
                self.lost += 1
                return
            self._left -= len(kept.data)
            self.taken.append(Taken(tensor, kept, digest_of(whole), sketched))


def sketch(value: Any) -> Any:
    """Every row projected onto 16 sums of all its elements, with signs that follow from their positions only.

    Rows stay rows and sums stay sums, so what holds of the values of replicas, that they are the reference's rows or
    add up to it, holds of their sketches too. Sums of n numbers of either sign grow like the root of n.
    """
    import numpy as np

    rows = value.reshape(value.shape[0], -1)
    random = np.random.default_rng(rows.shape[1])
    signs = random.integers(0, 2, size=(rows.shape[1], _PROJECTED), dtype=np.int8)
    projected = rows.astype(np.float64) @ (2.0 * signs - 1.0)
    return (projected / rows.shape[1] ** 0.5).astype(value.dtype)
