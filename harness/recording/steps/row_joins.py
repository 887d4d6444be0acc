"""What the replicas of a run had in parts, as one replica has it: the rows of all of them, one after another.

The axis of rows is not known from the arrays of replicas; what one replica asks for itself tells it. It is the axis
along which that is as long as the parts together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from harness.evidence.arrays import are_orders, wide
from harness.evidence.steps.store import data_of

if TYPE_CHECKING:
    import numpy as np


Parts = Sequence["np.ndarray[Any, Any]"]

_ORDER_MIN = 16
"""Fewer labels, such as two of two classes, may count up as an order does."""


class NotJoinable(Exception):
    """Raised where what replicas had is not parts of what one replica has.

    Attributes:
        is_own: whether each has something of its own that belongs to no example.
    """

    def __init__(self, text: str, *, is_own: bool = False) -> None:
        super().__init__(text)
        self.is_own = is_own


def rows_axis(own: Sequence[int], parts: Sequence[Sequence[int]]) -> int | None:
    """The axis along which `own` is as long as all parts together, and else as they are; None if there is none."""
    if any(len(part) != len(own) for part in parts):
        return None
    for axis, size in enumerate(own):
        others = [tuple(part[:axis]) + tuple(part[axis + 1 :]) for part in parts]
        rest = tuple(own[:axis]) + tuple(own[axis + 1 :])
        if size == sum(part[axis] for part in parts) and all(other == rest for other in others):
            return axis
    return None


def joined_rows(
    parts: Parts, own: np.ndarray[Any, Any], is_whole: Callable[[], bool] = lambda: True
) -> np.ndarray[Any, Any]:
    """The examples of all replicas, in the order of the replicas.

    Args:
        parts: of each replica, by number.
        own: what one replica would be given itself.
        is_whole: tells of parts that are the same whether that is no accident, as of masks of few examples. It is asked
            where they are as large as `own`.

    Raises:
        Apart: they are no rows.
    """
    import numpy as np

    if len(parts) == 1:
        return parts[0]
    if all(_is_same(part, parts[0]) and part.shape == own.shape for part in parts) and is_whole():
        return parts[0]  # given whole to each, which is what one replica is given
    if not own.ndim:  # a number that one replica knows itself, such as how many examples it has
        return own
    alike = _is_same(parts[0], own) and all(part.shape == own.shape for part in parts)
    if len(own) >= _ORDER_MIN and alike and are_orders(parts):
        return own  # each has an order of its own for the same rows, of which the first one is the reference's
    axis = rows_axis(own.shape, [part.shape for part in parts])
    if axis is not None:
        return np.concatenate(parts, axis)
    if any(not part.ndim or part.ndim != parts[0].ndim for part in parts):
        raise NotJoinable("replicas were given arrays of other ranks")
    return np.concatenate(_padded(parts, own), 0)


def known_sizes(own: Sequence[int | None], parts: Sequence[Sequence[int]]) -> list[int | None]:
    """What is known of the shape of joined rows: the sizes of `own`, where those of all parts together are the same."""
    if not parts or any(len(part) != len(own) for part in parts):
        return list(own)
    rows, *others = zip(*parts, strict=True)
    joined = [sum(rows), *map(max, others)]
    return [size if size == other else None for size, other in zip(own, joined, strict=True)]


def repeated_rows(parts: Parts) -> np.ndarray[Any, Any]:
    """The examples of one replica as often as they are given, one time after another; a number is given once."""
    import numpy as np

    return np.concatenate(parts, 0) if parts[0].ndim else parts[0]


def _is_same(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    return one.shape == other.shape and data_of(one) == data_of(other)


def _padded(parts: Parts, own: np.ndarray[Any, Any]) -> Parts:
    """All of them as long as the longest on every axis but that of rows: each replica pads its own batch."""
    import numpy as np

    sizes = np.max([part.shape[1:] for part in parts], axis=0, initial=0) if parts[0].ndim > 1 else ()
    if all(tuple(part.shape[1:]) == tuple(sizes) for part in parts):
        return parts
    filling = next((found for part in parts if (found := _filling(part, own)) is not None), 0)
    return [
        np.pad(
            part,
            [(0, 0), *((0, int(size) - length) for size, length in zip(sizes, part.shape[1:], strict=True))],
            constant_values=filling,
        )
        for part in parts
    ]


def _filling(part: np.ndarray[Any, Any], own: np.ndarray[Any, Any]) -> Any:
    """What stands behind the rows of a part in one replica's own batch, which is longer; None where that is unknown."""
    import numpy as np

    if own.ndim != part.ndim or own.dtype != part.dtype or own.shape[1:] == part.shape[1:]:
        return None
    within = tuple(map(slice, part.shape[1:]))
    rows = {data_of(row) for row in part}
    outside = np.ones(own.shape[1:], bool)
    outside[within] = False
    behind = [row[outside] for row in own if data_of(np.ascontiguousarray(row[within])) in rows]
    values = {value for each in behind for value in each.tolist()}
    return values.pop() if len(values) == 1 else None


def same_rows(found: Sequence[np.ndarray[Any, Any]], own: Sequence[np.ndarray[Any, Any]]) -> bool:
    """Whether two batches, each with several tensors, have the same rows in whatever order."""
    import numpy as np

    every = [[value for value in batch if value.ndim] for batch in (found, own)]
    if any(len({len(value) for value in batch}) != 1 for batch in every):
        return False
    one, other = (
        sorted(b"".join(data_of(np.asarray(row)) for row in rows) for rows in zip(*batch, strict=True))
        for batch in every
    )
    return one == other


def joined_draw(parts: Parts, own: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What all replicas drew, as one replica would have drawn it.

    Args:
        parts: of each replica, by number.
        own: what one replica draws itself, of which only the shape counts.

    Raises:
        Apart: each replica drew something of its own that is no part of a whole.
    """
    import numpy as np

    if len(parts) == 1 and parts[0].shape == own.shape:
        return parts[0]
    axis = rows_axis(own.shape, [part.shape for part in parts])
    if axis is not None:
        return np.concatenate(parts, axis)
    if any(part.shape != own.shape for part in parts):
        shapes = " and ".join(dict.fromkeys(str(list(part.shape)) for part in parts))
        raise NotJoinable(f"replicas draw arrays of shape {shapes} where one replica draws one of {list(own.shape)}")
    if are_own_draws(parts, own):
        text = f"each replica draws numbers of its own, of shape {list(own.shape)}, that belong to no example"
        raise NotJoinable(text, is_own=True)
    return parts[0]


def are_own_draws(parts: Parts, own: np.ndarray[Any, Any]) -> bool:
    """Whether each replica drew numbers of its own that belong to no example; arguments as of `joined_draw`."""
    if rows_axis(own.shape, [part.shape for part in parts]) is not None:
        return False
    return all(part.shape == own.shape for part in parts) and len({part.tobytes() for part in parts}) > 1


def summed_draw(parts: Parts) -> np.ndarray[Any, Any]:
    """The sum of standard normal numbers of all replicas, as standard normal numbers: their variances add up."""
    import numpy as np

    found: np.ndarray[Any, Any] = np.sum([wide(part) for part in parts], axis=0) / np.sqrt(len(parts))
    return found.astype(parts[0].dtype)


def joined_order(parts: Parts, own: np.ndarray[Any, Any], *, ranks: bool) -> np.ndarray[Any, Any]:
    """The orders that all replicas drew, as one of all rows; the arguments and errors are those of `joined_draw`.

    Args:
        parts: of each replica, by number.
        own: what one replica draws itself.
        ranks: as of `Standing`. The first of each replica come before the second of any.
    """
    import numpy as np

    found = joined_draw(parts, own)
    sizes = [len(part) for part in parts]
    if len(parts) == 1 or len(found) != sum(sizes):
        return found
    if ranks:
        shares = np.concatenate([(part + 0.5) / size for part, size in zip(parts, sizes, strict=True)])
        joined = np.argsort(np.argsort(shares, kind="stable"), kind="stable")
    else:
        joined = found + np.repeat(np.cumsum([0, *sizes[:-1]]), sizes)
    return joined.astype(found.dtype)


def sizes_of(given: Iterable[tuple[int, ...]], rows: int, replicas: int) -> list[int]:
    """How many of so many rows belong to each replica: as many times those that it was given, or else equal shares."""
    for sizes in given:
        if (whole := sum(sizes)) and rows % whole == 0:
            return [size * rows // whole for size in sizes]
    return [rows // replicas] * (replicas - 1) + [rows - rows // replicas * (replicas - 1)]
