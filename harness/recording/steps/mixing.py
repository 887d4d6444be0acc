"""Whether the parts of examples belong together: a feature that comes with another example's label is no example."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

__all__ = ["mixed_rows"]


def mixed_rows(given: Sequence[np.ndarray[Any, Any]], own: Sequence[np.ndarray[Any, Any]]) -> int | None:
    """How many of the examples that were given are made of parts of different ones.

    Args:
        given: each part of the examples of all replicas, such as features and labels; rows are examples.
        own: the same of what one device is given by the same program.

    Returns:
        None where that cannot be told: there is one part only, or other examples were given.
    """
    ours, theirs = _rows(given), _rows(own)
    if ours is None or theirs is None or len(ours) != len(theirs):
        return None
    if any(Counter(one) != Counter(other) for one, other in zip(ours, theirs, strict=True)):
        return None
    whole, expected = Counter(zip(*ours, strict=True)), Counter(zip(*theirs, strict=True))
    return sum((whole - expected).values())


def _rows(parts: Sequence[np.ndarray[Any, Any]]) -> list[list[bytes]] | None:
    """The rows of each part; None where they are not as many in each."""
    lengths = {len(part) if part.ndim else None for part in parts}
    if len(parts) < 2 or len(lengths) > 1 or None in lengths:
        return None
    return [[row.tobytes() for row in part] for part in parts]
