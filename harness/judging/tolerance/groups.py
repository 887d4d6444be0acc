"""Which elements of an array share a scale, and so may learn from each other how far rounding moves them.

A handful of reruns shows of one element a handful of draws, and by accident these may all be small. What keeps such an
accident from becoming an accusation is that elements of one scale are looked at together: the unit of a group is the
largest draw in it. No element may be judged by the size of another, so a group must not hold two scales. An array is
seen as a matrix whose columns are its last axis that is longer than one. Then

- predictions: the rows are examples, which differ in nothing that matters here, so that each column is a group;
- matrices: an element's scale is the product of one for its row and one for its column (features in unlike units,
  outputs in unlike units). They are found by balancing: rows are divided by their largest element, then columns, and
  so on, so that every row and every column has a say and no element is above its product;
- vectors, and matrices that are too thin for that: each element is by itself, but for the errors of those that are not
  larger than it, which as a share of its own size can only be less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Floats = np.ndarray[Any, np.dtype[np.floating[Any]]]
else:
    Floats = Any


ALIKE_MIN = 4
"""Elements that a row or column must have to be given a scale of its own. With m draws of it the chance that all are so
small that K times the largest does not cover a rounding error is about (1/40)^m * E|N|^m: 1e-6 for four.
"""

_BALANCINGS = 2
_LIKE = 2.0


def are_alone(shape: tuple[int, ...], *, examples: bool) -> bool:
    """Whether each element of such an array is by itself."""
    import numpy as np

    rows, columns = _matrix(np.broadcast_to(np.float32(0), shape), examples).shape
    return not (examples and rows >= ALIKE_MIN) and min(rows, columns) < ALIKE_MIN


def group_units(spread: Floats, size: Floats, *, examples: bool) -> Floats:
    """The unit of each element: at least its own spread, and what those of its scale have.

    Args:
        spread: how far reruns have moved each element, of any shape.
        size: the elements' magnitudes, of the same shape.
        examples: whether the first axis is one of examples.
    """
    import numpy as np

    if not spread.any():
        return spread
    shape = spread.shape
    matrix, sizes = _matrix(spread, examples), _matrix(size, examples)
    rows, columns = matrix.shape
    if examples and rows >= ALIKE_MIN:
        found = np.broadcast_to(matrix.max(axis=0, initial=0.0), matrix.shape)
    elif min(rows, columns) >= ALIKE_MIN:
        found = _balanced(matrix)
    elif columns > rows:
        found = np.stack([_not_larger(matrix[row], sizes[row]) for row in range(rows)]) if rows else matrix
    else:
        found = (
            np.stack([_not_larger(matrix[:, k], sizes[:, k]) for k in range(columns)], axis=1) if columns else matrix
        )
    return found.reshape(shape)


def group_sizes(size: Floats, *, examples: bool) -> Floats:
    """The magnitude that each element's group has: that of its column, or the product of its row's and its column's.

    Of an element that is by itself it is its own.
    """
    import numpy as np

    matrix = _matrix(size, examples)
    rows, columns = matrix.shape
    if examples and rows >= ALIKE_MIN:
        return np.broadcast_to(matrix.max(axis=0, initial=0.0), matrix.shape).reshape(size.shape)
    return _balanced(matrix).reshape(size.shape) if min(rows, columns) >= ALIKE_MIN else size


def _matrix(array: Floats, examples: bool) -> Floats:
    if array.ndim == 0:
        return array.reshape(1, 1)
    if array.size == 0:
        return array.reshape(0, 0)
    if examples:
        return array.reshape(array.shape[0], -1)
    return array.reshape(-1, next((length for length in reversed(array.shape) if length != 1), 1))


def _balanced(matrix: Floats) -> Floats:
    """The smallest products of a row's and a column's scale, as far as balancing goes, that no element is above."""
    import numpy as np

    row = np.ones((matrix.shape[0], 1), matrix.dtype)
    column = np.ones((1, matrix.shape[1]), matrix.dtype)
    for _ in range(_BALANCINGS):
        row = _share(matrix, column).max(axis=1, keepdims=True)
        column = _share(matrix, row).max(axis=0, keepdims=True)
    # The division rounds; a product must not be below the element that it comes from.
    found: Floats = np.maximum(row * column, matrix)
    return found


def _share(matrix: Floats, scale: Floats) -> Floats:
    import numpy as np

    # Where the scale is zero so is every element of that row or column.
    with np.errstate(over="ignore"):
        return np.divide(matrix, scale, out=np.zeros_like(matrix), where=scale > 0)


def _not_larger(spread: Floats, size: Floats) -> Floats:
    """The largest spread among all elements that are at most about as large as each."""
    import numpy as np

    if not spread.any():
        return spread
    order = np.argsort(size, kind="stable")
    highest, ordered = np.maximum.accumulate(spread[order]), size[order]
    found: Floats = np.empty_like(highest)
    # What is looked for in its order is found in a fraction of the time.
    found[order] = highest[np.searchsorted(ordered, _LIKE * ordered, side="right") - 1]
    return found
