"""In which relation the values of replicas stand to the one value of the reference.

Every value of a data-parallel step is split by examples, replicated, or partial: parts that add up, or whose largest
or smallest is meant. Relations are invariant where the meaning is: a matrix times the rows of a batch is split as the
batch is, the sum over its rows is partial, what is reduced is replicated. Where none holds the step no longer means
what it means on one device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


SPLIT, REPLICATED, PARTIAL, LARGEST, SMALLEST = "split", "replicated", "partial", "largest", "smallest"

_POWERS = (0, 1, -1, 2, -2)
_VIEWS = (2, 3, 4)


@dataclass(frozen=True)
class Relation:
    """One relation, up to a power of the number of replicas by which the run's is larger: 0 if it is as it should be.

    `axis` is the one along which a value is split.
    """

    kind: str
    power: int = 0
    axis: int = 0

    @property
    def right(self) -> bool:
        """Whether nothing is multiplied."""
        return self.power == 0


@dataclass(frozen=True)
class ExampleOrder:
    """Where the examples of the replicas, one replica's after another's, stand in the reference's batch."""

    rows: tuple[int, ...]

    def applied(self, joined: np.ndarray[Any, Any], axis: int) -> np.ndarray[Any, Any] | None:
        """A value of all replicas' examples in the reference's order; None if it has not several rows of each."""
        import numpy as np

        count = joined.shape[axis]
        if not self.rows or count % len(self.rows):
            return None
        each = count // len(self.rows)
        to = np.repeat(np.asarray(self.rows) * each, each) + np.tile(np.arange(each), len(self.rows))
        found = np.empty_like(joined)
        moved = np.moveaxis(found, axis, 0)
        moved[to] = np.moveaxis(joined, axis, 0)
        return found


def holding(
    truth: np.ndarray[Any, Any],
    parts: Sequence[np.ndarray[Any, Any]],
    allowed: np.ndarray[Any, Any] | float,
    order: ExampleOrder | None = None,
) -> frozenset[Relation]:
    """Every relation that holds of a value and its parts.

    Args:
        truth: of the reference.
        parts: of the replicas, in their order.
        allowed: by how much elements may be off, as `truth` is shaped.
        order: of the examples, None where replicas have them in the reference's order.
    """
    import numpy as np

    found: set[Relation] = set()
    wide, several = _wide(truth), [_wide(part) for part in parts]
    with np.errstate(all="ignore"):
        if all(part.shape == wide.shape for part in several):
            found |= _of_equal_shape(wide, several, allowed, truth.dtype.kind)
        if len(several) > 1:
            found |= _of_rows(wide, several, allowed, order)
    return frozenset(found)


def are_same_rows(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays have the same rows, in whatever order."""
    if one.shape != other.shape or not one.ndim:
        return False
    first, second = (sorted(row.tobytes() for row in each) for each in (one, other))
    return first == second


def _of_equal_shape(
    truth: np.ndarray[Any, Any], parts: list[np.ndarray[Any, Any]], allowed: np.ndarray[Any, Any] | float, kind: str
) -> set[Relation]:
    import numpy as np

    count = len(parts)
    powers = _POWERS if count > 1 and kind in "fc" else (0,)
    found = set()
    for power in powers:
        factor = float(count) ** power
        if all(_near(part, factor * truth, max(1.0, factor) * allowed) for part in parts):
            found.add(Relation(REPLICATED, power))
    if count == 1:
        return found
    together = np.asarray(np.sum(parts, axis=0))
    # Parts that nearly cancel are rounded as they are, not as their sum is.
    summed = allowed + 64 * _eps(kind) * np.sum(np.abs(parts), axis=0)
    for power in powers:
        factor = float(count) ** power
        if _near(together, factor * truth, max(1.0, factor) * summed):
            found.add(Relation(PARTIAL, power))
    if kind != "c":
        if _near(np.max(parts, axis=0), truth, allowed):
            found.add(Relation(LARGEST))
        if _near(np.min(parts, axis=0), truth, allowed):
            found.add(Relation(SMALLEST))
    return found


def _of_rows(
    truth: np.ndarray[Any, Any],
    parts: list[np.ndarray[Any, Any]],
    allowed: np.ndarray[Any, Any] | float,
    order: ExampleOrder | None,
) -> set[Relation]:
    found: set[Relation] = set()
    rank = truth.ndim
    if any(part.ndim != rank for part in parts):
        return found
    if are_padded(truth, parts) and _are_cropped(truth, parts, allowed):
        return {Relation(SPLIT)}
    for axis in range(rank):
        others = [part.shape[:axis] + part.shape[axis + 1 :] for part in parts]
        if any(other != truth.shape[:axis] + truth.shape[axis + 1 :] for other in others):
            continue
        if sum(part.shape[axis] for part in parts) != truth.shape[axis]:
            continue
        for joined in _joined(parts, axis, order):
            powers = {
                Relation(SPLIT, power, axis)
                for power in _POWERS
                if _near(joined, (factor := float(len(parts)) ** power) * truth, max(1.0, factor) * allowed)
            }
            found |= powers
            if powers:
                break
    return found


def are_padded(truth: np.ndarray[Any, Any], parts: Sequence[np.ndarray[Any, Any]]) -> bool:
    """Whether these may be rows of a batch that is padded to the longest, of which each replica pads its own."""
    if truth.ndim < 2 or any(part.ndim != truth.ndim for part in parts):
        return False
    shapes = [part.shape[1:] for part in parts]
    longest = tuple(map(max, zip(*shapes, strict=True)))
    return len({*shapes}) > 1 and longest == truth.shape[1:] and sum(map(len, parts)) == len(truth)


def _are_cropped(
    truth: np.ndarray[Any, Any], parts: list[np.ndarray[Any, Any]], allowed: np.ndarray[Any, Any] | float
) -> bool:
    """Whether padded rows are the reference's, as far as they go."""
    import numpy as np

    begin, bound = 0, np.broadcast_to(allowed, truth.shape)
    for part in parts:
        rows = (slice(begin, begin + len(part)), *map(slice, part.shape[1:]))
        if not _near(part, truth[rows], bound[rows]):
            return False
        begin += len(part)
    return True


def _joined(parts: list[np.ndarray[Any, Any]], axis: int, order: ExampleOrder | None) -> Iterator[np.ndarray[Any, Any]]:
    """The rows of all replicas: one replica's after another's, or the views of all after one another.

    Each replica may have several views of its examples, such as two crops of each image: all first ones come before the
    second ones.
    """
    import numpy as np

    joined = np.concatenate(parts, axis=axis)
    moved = None if order is None else order.applied(joined, axis)
    yield joined if moved is None else moved
    for views in _VIEWS:
        if order is None and all(part.shape[axis] and part.shape[axis] % views == 0 for part in parts):
            of_each = [np.split(part, views, axis) for part in parts]
            yield np.concatenate([each[view] for view in range(views) for each in of_each], axis)


def _near(values: np.ndarray[Any, Any], truth: np.ndarray[Any, Any], allowed: np.ndarray[Any, Any] | float) -> bool:
    import numpy as np

    same = (values == truth) | (np.isnan(values) & np.isnan(truth))
    return bool(np.all(same | (np.abs(values - truth) <= allowed)))


def _wide(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    import numpy as np

    return array if array.dtype.kind == "c" else array.astype(np.float64)


def _eps(kind: str) -> float:
    return 2.0**-23 if kind in "fc" else 0.0
