"""The runs of a reference: those with noise are kept as one trace, which is made again as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import NoRoom
from harness.evidence.independence import Touch
from harness.evidence.trace import read_client
from harness.evidence.writing import write_client
from harness.running import repeated, room
from harness.running.depends import keep_depends
from harness.running.repeated import PLAIN, Runs, noisy
from harness.subject.program import Program
from tests.harness._traces import client, step

_SIZES = {PLAIN: 0.0, noisy(1): 0.25, noisy(-1): -0.5, noisy(2): 0.125}


class _Made(Runs):
    """Runs of a program that reads one number from a file; each is the number and its own noise."""

    def make(self, names: Sequence[str]) -> None:
        for name in self._missing(names):
            self._assignment(name)
            data = self.directory / "data"
            numbers = np.array([float(data.read_text()), float(data.read_text()) + _SIZES[name]])
            if name == noisy(2):
                numbers = numbers[:1]
            write_client(self.trace(name), client(step(1, loss=numbers), task="local:0"))
            folder = self.directory / name
            keep_depends(folder, [Touch(str(data), 0.0, writes=False)])
            (folder / "done").touch()
            with (self.directory / "made").open("a") as file:
                file.write(f"{name} ")

    def made(self) -> list[str]:
        """Which have been made since this was asked last."""
        note = self.directory / "made"
        found = note.read_text().split() if note.exists() else []
        note.unlink(missing_ok=True)
        return found


@pytest.fixture
def runs(tmp_path: Path) -> _Made:
    """Of which nothing but the plain one has been made."""
    (tmp_path / "data").write_text("1.0")
    found = _Made(Program.of(_no_program), tmp_path, 1, 60.0)
    found.make([PLAIN])
    assert found.made() == [PLAIN]
    return found


def _no_program(strategy: Any, record: Any) -> None:
    raise AssertionError("nothing runs here")


def _numbers(trace: Path) -> list[float]:
    (only,) = read_client(trace).steps
    assert only.loss is not None
    numbers: list[float] = only.loss.parts[0].numpy().tolist()
    return numbers


def test_several_reruns_are_one_trace_that_is_kept(runs: _Made) -> None:
    """The second one's is in the first one's, and neither is made again."""
    both = [noisy(1), noisy(-1)]
    assert runs.furthest(both) == [runs.trace(noisy(1))]
    assert _numbers(runs.trace(noisy(1))) == [1.0, 0.5]
    assert runs.made() == both
    assert runs.furthest(both) == [runs.trace(noisy(1))]
    assert runs.made() == []


def test_who_was_killed_while_a_trace_was_taken_in_begins_again(runs: _Made) -> None:
    """Before the note of it was written, and before the trace was removed."""
    both = [noisy(1), noisy(-1)]
    runs.furthest(both)
    runs.made()
    note = runs.directory / noisy(-1) / "taken-in"
    for left in (False, True):
        kept = note.read_text()
        write_client(runs.trace(noisy(-1)), client(step(1, loss=np.array([1.0, 0.5])), task="local:0"))
        if not left:
            note.unlink()
        assert runs.furthest(both) == [runs.trace(noisy(1))]
        assert (_numbers(runs.trace(noisy(1))), note.read_text()) == ([1.0, 0.5], kept)
        assert not runs.trace(noisy(-1)).exists()
    assert runs.made() == []


def test_what_was_read_is_otherwise_and_all_are_made_again(runs: _Made) -> None:
    """Nothing of what was in the trace before is in it then, in whatever order they are made."""
    both = [noisy(1), noisy(-1)]
    runs.furthest(both)
    runs.made()
    (runs.directory / "data").write_text("8.0")
    runs.make([PLAIN, noisy(1)])
    assert runs.furthest(both) == [runs.trace(noisy(1))]
    assert _numbers(runs.trace(noisy(1))) == [8.0, 7.5]
    assert runs.made() == [PLAIN, *both]
    (runs.directory / "data").write_text("4.0")
    runs.make([PLAIN])
    assert runs.furthest(both) == [runs.trace(noisy(1))]
    assert _numbers(runs.trace(noisy(1))) == [4.0, 3.5]


def test_of_one_alone_that_is_old_all_are_made_again(runs: _Made) -> None:
    """Whose numbers it has put where in the common trace, nobody could tell."""
    both = [noisy(1), noisy(-1)]
    runs.furthest(both)
    runs.made()
    keep_depends(runs.directory / noisy(-1), [Touch(str(runs.trace(noisy(1))), 0.0, writes=False)])
    write_client(runs.trace(noisy(1)), client(step(1, loss=np.array([9.0, 9.0])), task="local:0"))
    assert runs.furthest(both) == [runs.trace(noisy(1))]
    assert runs.made() == both
    assert _numbers(runs.trace(noisy(1))) == [1.0, 0.5]


def test_one_that_records_otherwise_stays_a_trace_of_its_own(runs: _Made) -> None:
    """The others are one without it."""
    three = [noisy(1), noisy(2), noisy(-1)]
    assert runs.furthest(three) == [runs.trace(noisy(1)), runs.trace(noisy(2))]
    assert _numbers(runs.trace(noisy(1))) == [1.0, 0.5]
    assert _numbers(runs.trace(noisy(2))) == [1.0]


def test_fewer_are_made_at_once_where_there_is_little_room(runs: _Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as the machine has cores, or as fit; and none where not even one does."""
    size = runs.trace(PLAIN).stat().st_size
    monkeypatch.setattr(repeated, "cores", lambda: 2)
    names = [noisy(1), noisy(-1), noisy(2)]
    for free, expected in ((9, [2, 1]), (1, [1, 1, 1])):
        monkeypatch.setattr(room, "_free", lambda _, free=free: free * size)
        assert [len(some) for some in runs._batches(names)] == expected
    monkeypatch.setattr(room, "_free", lambda _: size - 1)
    with pytest.raises(NoRoom, match="reruns of the reference are to be made"):
        Runs.make(runs, names[:1])
