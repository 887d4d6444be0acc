"""Keeps the values of tensors, large ones as sketches, within a budget."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from harness.evidence.sketch import sketch
from harness.evidence.trace import Array
from harness.evidence.watched_step import TensorValue, digest_of

if TYPE_CHECKING:
    import numpy as np

__all__ = ["FULL_BYTES", "Values"]

FULL_BYTES = 1 << 16
"""A value of no more bytes is kept as it is."""

BUDGET_BYTES = 1 << 27
"""What all values of one step in one process may take; what comes after is not kept."""


class Values:
    """What tensors held, in the order in which it was seen; several threads add to it.

    Attributes:
        taken: the values.
        lost: the tensors of which there was no room for a value, of which none is kept then.
    """

    def __init__(self, budget: int = BUDGET_BYTES) -> None:
        self.taken: list[TensorValue] = []
        self.lost: set[int] = set()
        self._left = budget
        self._lock = threading.Lock()

    def take(self, tensor: int, value: Any) -> None:
        """Keep a value of a tensor, which is an array."""
        import numpy as np

        value = np.asarray(value)
        if value.dtype.kind not in "fciub" and value.dtype.name != "bfloat16":
            return
        sketched = value.nbytes > FULL_BYTES and value.dtype.kind == "f"
        whole = _as_it_lies(value) if sketched else Array.of(value)
        kept, shape = (Array.of(sketch(value)), value.shape) if sketched else (whole, None)
        taken = TensorValue(tensor, kept, digest_of(whole), shape)
        with self._lock:
            if len(kept.data) > self._left:
                self.lost.add(tensor)
                return
            self._left -= len(kept.data)
            self.taken.append(taken)


def _as_it_lies(value: np.ndarray[Any, Any]) -> Array:
    """An array without a copy of it, which would be as large as all gradients of a model joined."""
    import numpy as np

    lying = np.ascontiguousarray(value)
    return Array(value.dtype.name, value.shape, lying.reshape(-1).view(np.uint8).data)
