"""Rows of a sparse gradient of which something is computed before those of one index are added up.

What `tf.gather` of a table has as its gradient are rows with their indices. Replicas that look up the same row have it
once each: their rows stand one behind the other's. An optimizer that squares them has the sum of the squares, where one
device squares the sum. tf_keras adds up the rows of an index first; Keras 3 does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.evidence.watched_step import Op
from harness.judging.culprit.alignment import Alignment, OperationNode
from harness.judging.culprit.client_step import ClientStep

if TYPE_CHECKING:
    import numpy as np

    _Sums = dict[int, np.ndarray[Any, Any]]

_ADDING_ROWS = {
    "UnsortedSegmentSum": (0, 1),
    "ResourceScatterAdd": (2, 1),
    "ResourceScatterSub": (2, 1),
    "TensorScatterAdd": (2, 1),
    "TensorScatterSub": (2, 1),
}
"""By operation that adds up rows of an index, the operands that are the rows and the indices."""
_TOLERANCE = 1e-4
"""As a share of the largest sum: far more than rounding makes of it."""

SAYS = (
    "each replica has looked up the same rows; this is computed of the rows of each, and added up only then, where one "
    "device has one row of an index"
)


def computed_of_rows(aligned: Alignment) -> OperationNode | None:
    """The first operation that computes something else of the rows of each replica than of their sums, or None."""
    for theirs in aligned.reference.watched.ops:
        if theirs.type in _ADDING_ROWS and theirs.number in aligned.counterparts:
            node = aligned.counterparts[theirs.number][0]
            number = _first_of(aligned.sides[node.client], aligned.op(node), aligned.reference, theirs)
            if number is not None:
                return OperationNode(node.client, number)
    return None


def _first_of(side: ClientStep, ours: Op, reference: ClientStep, theirs: Op) -> int | None:
    """The operation before a wrong sum of rows whose operand has rows of which the sum is right."""
    at, by = _ADDING_ROWS[theirs.type]
    index, same_index = ours.inputs[by], theirs.inputs[by]
    if _agree(_added(side, ours.inputs[at], index), _added(reference, theirs.inputs[at], same_index)) is not False:
        return None
    made, truth = side.producer(ours.inputs[at]), reference.producer(theirs.inputs[at])
    while made is not None and truth is not None and made.type == truth.type:
        operands = [
            (rows, same, _agree(_added(side, rows, index), _added(reference, same, same_index)))
            for rows, same in zip(made.inputs, truth.inputs, strict=False)
        ]
        if any(agree for _, _, agree in operands):
            return made.number
        before = next(((rows, same) for rows, same, agree in operands if agree is False), None)
        if before is None:
            return None
        made, truth = side.producer(before[0]), reference.producer(before[1])
    return None


def _added(side: ClientStep, rows: int, indices: int) -> _Sums | None:
    """By index the sum of its rows; None where they were not kept whole."""
    import numpy as np

    values, numbers = side.values(rows), side.values(indices)
    if not values or not numbers or side.is_sketched(rows) or not values[0].ndim or values[0].dtype.kind != "f":
        return None
    if len(values[0]) != numbers[0].size:
        return None
    found: _Sums = {}
    for number, row in zip(numbers[0].reshape(-1).tolist(), values[0].astype(np.float64), strict=True):
        found[number] = found.get(number, 0) + row
    return found


def _agree(found: _Sums | None, expected: _Sums | None) -> bool | None:
    """Whether the sums of rows are the same by index; None where that is not known."""
    import numpy as np

    if found is None or not expected:
        return None
    largest = max(float(np.max(np.abs(row), initial=0.0)) for row in expected.values())
    return found.keys() == expected.keys() and all(
        bool(np.all(np.abs(found[each] - expected[each]) <= _TOLERANCE * largest)) for each in expected
    )
