"""In which order the replicas have the examples of the reference's batch.

A dataset that is sharded by elements hands every other example to the other worker, and the rows of everything that is
computed from examples stand in that order. It is read off the examples themselves, where they enter the replicas.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from harness.evidence.arrays import are_orders
from harness.judging.culprit.relations import ExampleOrder

if TYPE_CHECKING:
    import numpy as np


if TYPE_CHECKING:
    Entering = tuple[list[np.ndarray[Any, Any]], np.ndarray[Any, Any]]
else:
    Entering = tuple


def order_of(entering: Iterable[Entering]) -> ExampleOrder | None:
    """The order by the values of which most rows are unlike each other; None where it is the reference's own.

    Args:
        entering: what the replicas were given, and what the reference was given instead.
    """
    best: tuple[int, ExampleOrder | None] = (0, None)
    for parts, value in entering:
        if (found := _rows(parts, value)) is not None:
            distinct, order = found
            if distinct > best[0]:
                best = distinct, order
    return best[1]


def other_examples(entering: Iterable[Entering]) -> bool:
    """Whether the replicas were given rows that the reference was not given, or another number of them.

    An order of rows is drawn, and is another one for all rows. Of the number of rows nothing is known where something
    else enters that is as many as the reference's: then what is not may be noise of each replica's own.
    """
    import numpy as np

    pairs = [(parts, value) for parts, value in entering if not are_orders([*parts, value])]
    split = [pair for pair in pairs if _splits(*pair)]
    if not split:
        return any(_more_or_fewer(*pair) for pair in pairs)
    split = [(parts, value) for parts, value in split if not _are_indices(parts, value)]
    return any(sorted(_keys(np.concatenate(parts))) != sorted(_keys(value)) for parts, value in split)


def _splits(parts: list[np.ndarray[Any, Any]], value: np.ndarray[Any, Any]) -> bool:
    return _are_rows(parts, value) and sum(len(part) for part in parts) == len(value) and len(value) > 1


def _are_indices(parts: list[np.ndarray[Any, Any]], value: np.ndarray[Any, Any]) -> bool:
    """Whether these are the indices of a `tf.SparseTensor`, of which each replica counts its rows from 0."""
    import numpy as np

    if value.dtype != np.int64 or value.ndim != 2 or value.shape[1] < 2:
        return False
    bounds = np.cumsum([0, *map(len, parts)])
    shares = [value[begin:end] for begin, end in itertools.pairwise(bounds)]
    rest = all(np.array_equal(part[:, 1:], share[:, 1:]) for part, share in zip(parts, shares, strict=True))
    rows = [share[:, 0] - part[:, 0] for part, share in zip(parts, shares, strict=True)]
    return rest and all(len(set(each.tolist())) <= 1 for each in rows)


def _more_or_fewer(parts: list[np.ndarray[Any, Any]], value: np.ndarray[Any, Any]) -> bool:
    """Whether each replica has rows of its own and all together another number; whole numbers may be row lengths."""
    if not _are_rows(parts, value) or (value.ndim == 1 and value.dtype.kind != "f"):
        return False
    return sum(len(part) for part in parts) != len(value) and len({part.tobytes() for part in parts}) > 1


def _are_rows(parts: list[np.ndarray[Any, Any]], value: np.ndarray[Any, Any]) -> bool:
    return value.ndim > 0 and all(part.shape[1:] == value.shape[1:] and part.ndim == value.ndim for part in parts)


def _keys(rows: np.ndarray[Any, Any]) -> list[bytes]:
    return [row.tobytes() for row in rows]


def _rows(parts: list[np.ndarray[Any, Any]], value: np.ndarray[Any, Any]) -> tuple[int, ExampleOrder | None] | None:
    """How many rows are unlike, and the order; None if these are not the same rows."""
    import numpy as np

    if not _splits(parts, value):
        return None
    ours, theirs = _keys(np.concatenate(parts)), _keys(value)
    if ours == theirs:
        return len(set(theirs)), None
    where: dict[bytes, list[int]] = defaultdict(list)
    for position, key in enumerate(theirs):
        where[key].append(position)
    rows = []
    for key in ours:
        if not where[key]:
            return None
        rows.append(where[key].pop(0))
    return len(set(theirs)), ExampleOrder(tuple(rows))
