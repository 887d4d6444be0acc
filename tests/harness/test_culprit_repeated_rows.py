"""The line of an optimizer that computes of the rows of a sparse gradient before it adds up those of an index."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from harness.judging.culprit import Culprit, find_culprit
from harness.judging.culprit.kinds import ROWS
from tests.harness._watched import Steps, watched

_X = np.random.default_rng(3).normal(size=(8, 4)).astype(np.float32)
_GRADIENT, _GATHERED, _SQUARED, _ADDED = range(3, 7)


def _step(steps: Steps, mistake: str) -> None:
    """Every replica looks up the same four rows; what is kept of their gradients is the square of the sum."""
    rows = steps.each("Sum", _GRADIENT, lambda x: x.sum(axis=0)[:, None], steps.batch, name="gradient_tape/Sum")
    numbers = steps.each("Range", _GRADIENT, lambda x: np.arange(4, dtype=np.int64), steps.batch)
    rows, numbers = steps.gathered(_GATHERED, rows), steps.gathered(_GATHERED, numbers)
    square = functools.partial(steps.each, "Square", _SQUARED, np.square)
    if mistake == "squared":
        rows = steps.each("Mul", _SQUARED, lambda x: x * np.float32(0.1), square(rows))
    elif mistake == "of the first":
        rows = [steps._op("Slice", _GATHERED, "outer", 0, (row,), steps.value(row)[:4] + 1) for row in rows]
        rows = steps.each("Tile", _GATHERED, lambda x, n: np.tile(x, (len(n) // 4, 1)), rows, numbers)
    total = steps.each("UnsortedSegmentSum", _ADDED, _added, rows, numbers)
    steps.assign(_ADDED, "momentum", total if mistake else square(total))


def _added(rows: Any, numbers: Any) -> Any:
    found = np.zeros((4, 1), np.float32)
    np.add.at(found, numbers, rows)
    return found


@pytest.mark.parametrize("mistake", ["", "squared", "of the first"])
def test_what_is_computed_of_the_rows_of_each_replica_is_named(mistake: str) -> None:
    """Where the sums of the rows are right; elsewhere what made the rows is to blame."""
    run, reference = watched(functools.partial(_step, mistake=mistake), _X, _X[:4], _X[4:])
    found = find_culprit([run], reference, [])
    if mistake == "squared":
        assert isinstance(found, Culprit)
        assert (found.line, found.op, found.kind) == (_SQUARED, "Square", ROWS.code)
        assert "the same rows" in found.relation
    else:
        assert isinstance(found, Culprit) == bool(mistake)
        assert getattr(found, "kind", None) != ROWS.code
