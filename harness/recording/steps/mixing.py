"""The examples that a run was given next to those that one device is given: how many, which, and whether their parts
belong together. A feature that comes with another example's label is no example.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.evidence.trace import GivenSeen

if TYPE_CHECKING:
    import numpy as np

__all__ = ["compared"]


def compared(given: Sequence[np.ndarray[Any, Any]], own: Sequence[np.ndarray[Any, Any]]) -> GivenSeen | None:
    """What is to be said of them.

    Args:
        given: each part of the examples of all replicas, such as features and labels; rows are examples.
        own: the same of what one device is given by the same program.

    Returns:
        None where the parts have not the same number of rows, so that nobody knows what an example is.
    """
    ours, theirs = _rows(given), _rows(own)
    if ours is None or theirs is None:
        return None
    whole, expected = Counter(zip(*ours, strict=True)), Counter(zip(*theirs, strict=True))
    others = sum((whole - expected).values())
    alike = all(Counter(one) == Counter(other) for one, other in zip(ours, theirs, strict=True))
    return GivenSeen(len(ours[0]), len(theirs[0]), others, others if alike and len(ours) > 1 else None)


def _rows(parts: Sequence[np.ndarray[Any, Any]]) -> list[list[bytes]] | None:
    """The rows of each part; None where they are not as many in each."""
    lengths = {len(part) if part.ndim else None for part in parts}
    if not parts or len(lengths) > 1 or None in lengths:
        return None
    return [[row.tobytes() for row in part] for part in parts]
