"""The line of Python that makes of right parts what is wrong: what parts mean, and the way back to that line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import culprits
from harness.evidence.bindings import ARGUMENT, CONSTANT, ENTRY, GRAPH, NAME, RETURN, Bindings, Bound
from harness.evidence.trace import Array
from harness.evidence.watched_step import Frame
from harness.judging.culprit import Culprit, NoCulprit, made_by_hand
from harness.judging.culprit.by_hand import statement_at
from harness.judging.culprit.parts_by_hand import WRONG, meant
from harness.subject.strategies import strategy_case

_X = np.random.default_rng(3).normal(size=(4, 6))
_HALVES = [_X[:2], _X[2:]]
_QUARTERS = [_X[:2, :3], _X[:2, 3:], _X[2:, :3], _X[2:, 3:]]


def _bound(values: Sequence[Any], shards: Sequence[tuple[int, ...]] = (), **said: Any) -> Bound:
    about: dict[str, Any] = {"kind": NAME, "name": "x", "lines": (0,), "step": 1, "call": 1, "within": 0, **said}
    return Bound(parts=tuple(map(Array.of, values)), shards=tuple(shards), **about)


@pytest.mark.parametrize(
    ("parts", "truth", "expected"),
    [
        ([_X / 2, _X / 2], _X, {0.5, 1.0}),
        ([_X, _X], _X, {1.0, 2.0}),
        (_HALVES, _X, {1.0}),
        ([_X + 1, -np.ones_like(_X)], _X, {1.0}),
        ([np.stack([_X + 1, -np.ones_like(_X)])], _X[None], {1.0}),
        ([_X[:2].max(), _X[2:].max()], _X.max(), WRONG),
        ([_X[:2].max(0), _X[2:].max(0)], _X.max(0), {1.0}),
        ([_X[:2].mean(0), _X[2:].mean(0)], _X.mean(0), {2.0}),
        ([_X, 2 * _X], _X, WRONG),
        (list(reversed(_HALVES)), _X, WRONG),
        ([_X[:2] - _X[:2].mean(0), _X[2:] - _X[2:].mean(0)], _X - _X.mean(0), WRONG),
        ([2], 1, None),
    ],
)
def test_what_parts_mean(parts: list[Any], truth: Any, expected: set[float] | frozenset[float] | None) -> None:
    """Copies, rows, summands and largest ones; too large by the devices; nothing at all; and a count, of no meaning."""
    known = None if expected is None else frozenset(expected)
    assert meant([[_bound(parts)]], _bound([truth]), (2, 1)) == known
    if len(parts) == 2:
        assert meant([[_bound([each])] for each in parts], _bound([truth]), (2, 1)) == known  # of two clients


@pytest.mark.parametrize(("parts", "expected"), [(_QUARTERS, {1.0}), ([*_QUARTERS[:3], _QUARTERS[0]], WRONG)])
def test_what_parts_mean_along_two_axes(parts: list[Any], expected: frozenset[float]) -> None:
    """Rows along one and columns along the other, by hand or on the mesh."""
    expected = frozenset(expected)
    assert meant([[_bound(parts)]], _bound([_X]), (2, 2)) == expected
    shards = [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert meant([[_bound(parts, shards)]], _bound([_X], [(0, 0)]), (2, 2)) == expected


def test_copies_on_a_mesh_that_differ_are_wrong() -> None:
    """Also where the first one is right."""
    truth = _bound([_X], [(0, 0)])
    assert meant([[_bound([_X, _X], [(0, 0)] * 2)]], truth, (2, 1)) == frozenset({1.0})
    assert meant([[_bound([_X, _X + 1], [(0, 0)] * 2)]], truth, (2, 1)) == WRONG


_PROGRAM = """\
def train(mesh):
    for x in batches(mesh):
        parts = unpack(x)
        means = [each.mean() for each in parts]
        total = shared(sum(means))
        packed = pack(total)
        step(packed)


def shared(value):
    return value * 1.0
"""


class _Run:
    """What a program has bound, by its lines."""

    def __init__(self, file: Path) -> None:
        self.file = str(file)
        self.frames: dict[Frame, int] = {}
        self.bound: list[Bound] = []

    def add(
        self, kind: str, name: str, lines: Sequence[int], values: Sequence[Any], shards: Any = (), **said: Any
    ) -> None:
        frames = [Frame(self.file, line, "shared" if line > 9 else "train", own=True) for line in lines]
        numbers = tuple(self.frames.setdefault(frame, len(self.frames)) for frame in frames)
        self.bound.append(_bound(values, shards, kind=kind, name=name, lines=numbers, **said))

    def bindings(self) -> Bindings:
        return Bindings("local:0", tuple(self.frames), tuple(self.bound))


def _ran(
    file: Path, devices: int, *, mean: bool = False, inside: float = 1.0, other: bool = False, graph: float = 1.0
) -> Bindings:
    """A run: `mean` is whether each device takes its own, `inside` what `shared` makes of a value, `graph` of a graph.

    `other` is whether `shared` is called by another line as well, for which it is right.
    """
    file.write_text(_PROGRAM)
    run, parts, shards = _Run(file), np.split(_X, devices), [(0, 0)] * devices
    run.add(NAME, "parts", [3], parts)
    means = [part.mean() if mean else part.sum() / _X.size for part in parts]
    run.add(NAME, "means", [4], means)
    run.add(ARGUMENT, "value", [5, 10], [sum(means)], call=2, within=1)
    run.add(RETURN, "", [5, 11], [sum(means) * inside], call=2, within=1)
    run.add(NAME, "total", [5], [sum(means) * inside])
    if other:
        run.add(RETURN, "", [7, 11], [1.0], call=3, within=1)
    run.add(CONSTANT, "", [7], [graph], call=0)
    total = np.full([1, 1], sum(means) * inside)
    run.add(ENTRY, "pack", [6], [total] * devices, shards=shards)
    run.add(ENTRY, GRAPH, [7], [total * graph] * devices, shards=shards)
    return run.bindings()


@pytest.mark.parametrize(
    ("run", "line"),
    [
        ({"mean": True}, 4),
        ({"inside": 7.0}, 11),
        ({"inside": 7.0, "other": True}, 5),
        ({"graph": 3.0}, 7),
    ],
)
def test_the_line_that_makes_a_wrong_value(tmp_path: Path, run: dict[str, Any], line: int) -> None:
    """In the function, in one that it calls, at the call of one that is right for others, and of a graph's number."""
    file = tmp_path / "train.py"
    one = _ran(file, 1, other=run.get("other", False))
    found = made_by_hand([_ran(file, 2, **run)], one, (2, 1))
    assert isinstance(found, Culprit)
    assert found.line == line
    assert found.source == _PROGRAM.splitlines()[line - 1].strip()


@pytest.mark.parametrize(
    ("values", "packed", "line"),
    [
        (([2 * _X, -_X], [_X / 2], [_X / 2, _X / 2]), _X / 2, 4),
        (([_X, _X], [_X, _X], [2 * _X]), 2 * _X, 5),
    ],
)
def test_what_may_be_right_is_passed_by(tmp_path: Path, values: Any, packed: Any, line: int) -> None:
    """Copies of a half are summands of the whole too, and copies of the whole are summands of its double."""
    (file := tmp_path / "train.py").write_text(_PROGRAM)
    runs = []
    for devices in (1, 2):
        run = _Run(file)
        for name, at, several in zip(("parts", "means", "total"), (3, 4, 5), values, strict=True):
            run.add(NAME, name, [at], several if devices > 1 else [_X])
        run.add(ENTRY, "pack", [6], [packed if devices > 1 else _X] * devices, [(0, 0)] * devices)
        runs.append(run.bindings())
    found = made_by_hand([runs[1]], runs[0], (2, 1))
    assert isinstance(found, Culprit)
    assert found.line == line


_ADDED = """\
def train(parts):
    total = parts[0]
    total += parts[1]
    total += parts[1]
    pack(total)
"""


@pytest.mark.parametrize(("totals", "line"), [((_X[:2].sum(0), _X.sum(0)), 4), ((_X[:2].sum(0), _X.min(0)), None)])
def test_what_is_added_up_line_by_line(tmp_path: Path, totals: Any, line: int | None) -> None:
    """The line after the sum was right, although one device does not pass it; none where it never was."""
    (file := tmp_path / "train.py").write_text(_ADDED)
    one, run = _Run(file), _Run(file)
    one.add(NAME, "total", [2], [_X.sum(0)])
    for at, total in zip((2, 3, 4), (*totals, totals[1] + _X[2:].sum(0)), strict=True):
        run.add(NAME, "total", [at], [total])
    for each, packed in ((one, _X.sum(0)), (run, totals[1] + _X[2:].sum(0))):
        each.add(ENTRY, "pack", [5], [packed], [(0,)])
    found = made_by_hand([run.bindings()], one.bindings(), (2, 1))
    assert getattr(found, "line", None) == line


def test_no_line_where_one_reads_what_is_not_known(tmp_path: Path) -> None:
    """It may have been wrong already."""
    (file := tmp_path / "train.py").write_text(_PROGRAM)
    one, run = _Run(file), _Run(file)
    run.add(NAME, "means", [4], _HALVES)
    for each, packed in ((one, _X), (run, 2 * _X)):
        each.add(NAME, "total", [5], [packed])
        each.add(ENTRY, "pack", [6], [packed], [(0, 0)])
    assert isinstance(made_by_hand([run.bindings()], one.bindings(), (2, 1)), NoCulprit)


def test_no_line_of_a_right_program(tmp_path: Path) -> None:
    """Nor of one that binds more than was seen."""
    file = tmp_path / "train.py"
    right, one = _ran(file, 2), _ran(file, 1)
    assert isinstance(made_by_hand([right], one, (2, 1)), NoCulprit)
    wrong = _ran(file, 2, mean=True)
    lost = Bindings(wrong.task, wrong.frames, wrong.bound, whole=False)
    assert isinstance(made_by_hand([lost], one, (2, 1)), NoCulprit)


def test_what_a_statement_reads(tmp_path: Path) -> None:
    """Of one that holds others its head, and nothing of a file that is not there."""
    file = tmp_path / "train.py"
    file.write_text(_PROGRAM)
    assert statement_at(str(file), 2).names == {"batches", "mesh"}
    assert statement_at(str(file), 4).names == {"each", "parts"}
    assert statement_at(str(tmp_path / "none.py"), 4).names == frozenset()


def test_no_line_of_work_that_the_program_divides_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Micro-batches of a pipeline are no parts of replicas."""
    unasked: Any = None
    monkeypatch.setattr(culprits, "placed_by_hand", lambda run: ("CPU:1",))
    found = culprits._looked(unasked, unasked, strategy_case("mirrored-2"), unasked, unasked)
    assert isinstance(found, NoCulprit)
    assert "tf.device" in found.why
