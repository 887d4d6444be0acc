"""What changed between two saved matrices, say of two TensorFlow versions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from harness.damaged_files import reading
from harness.report.matrix import OUTCOMES, Cell, Matrix
from simulator import UsageError

# A cell that stays within its bound is listed when it has come this much closer to it.
_RATIO_FACTOR = 10.0
_RATIO_SMALLEST = 0.01


class Change(msgspec.Struct, frozen=True):
    """One cell that differs: `before` and `after` are `None` where the cell does not exist."""

    row: str
    strategy: str
    before: str | None
    after: str | None
    worse: bool
    reason: str


def read_matrix(path: Path) -> Matrix:
    """Read a `matrix.json`, given as the file or as the folder that `--lockstep-out` named.

    Raises:
        UsageError: there is no such file, or it is no matrix.
    """
    file = path / "matrix.json" if path.is_dir() else path
    if not file.is_file():
        raise UsageError(f"there is no matrix at {path}; make one with `pytest scenarios/ --lockstep-out=DIR`")
    with reading(file):
        matrix = msgspec.json.decode(file.read_bytes(), type=Matrix)
        # In the order of `OUTCOMES` the worst is found.
        if unknown := {cell.outcome for cell in matrix.cells} - {*OUTCOMES}:
            raise ValueError(f"outcome {min(unknown)!r} is none of {', '.join(OUTCOMES)}")
    if not matrix.cells and not matrix.tables:
        raise UsageError(f"{file} holds no cell, so it is not the matrix of a session")
    return matrix


def compare_matrices(before: Matrix, after: Matrix) -> Iterator[Change]:
    """Every cell whose outcome changed, that came or went, or that moved much closer to its bound."""
    old = {(cell.row, cell.strategy): cell for cell in before.cells}
    new = {(cell.row, cell.strategy): cell for cell in after.cells}
    for place in dict.fromkeys([*old, *new]):
        was, now = old.get(place), new.get(place)
        if was is not None and now is not None and was.outcome == now.outcome and not _closer(was, now):
            continue
        worse = now is not None and (_rank(now) > _rank(was) or (was is not None and _closer(was, now)))
        yield Change(
            row=place[0],
            strategy=place[1],
            before=was.text if was else None,
            after=now.text if now else None,
            worse=worse,
            reason=now.reason if now else "",
        )


def _rank(cell: Cell | None) -> int:
    """How bad an outcome is; a cell that did not exist counts as skipped."""
    return OUTCOMES.index(cell.outcome) if cell is not None else OUTCOMES.index("skipped")


def _closer(was: Cell, now: Cell) -> bool:
    if was.outcome != "ok" or not isinstance(was.ratio, (int, float)) or not isinstance(now.ratio, (int, float)):
        return False
    return now.ratio > _RATIO_FACTOR * max(was.ratio, _RATIO_SMALLEST)
