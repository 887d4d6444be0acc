"""The runs of a reference: each is made once, and again when what it depends on is otherwise."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import NoRoom
from harness.evidence.independence import Touch
from harness.evidence.writing import write_client
from harness.running import reference_runs
from harness.running.dependencies import keep_depends
from harness.running.reference_runs import PLAIN, Runs, noisy
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
            write_client(self.trace(name), client(step(1, loss=numbers), task="local:0"))
            folder = self.directory / name
            reference_runs._complete(folder, [Touch(str(data), 0.0, writes=False)])
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


def test_a_rerun_is_made_once_and_again_when_what_it_read_is_otherwise(runs: _Made) -> None:
    """Of others nothing is made again."""
    both = [noisy(1), noisy(-1)]
    runs.make_all(both)
    assert runs.made() == both
    runs.make_all(both)
    assert runs.made() == []
    keep_depends(runs.directory / noisy(-1), [Touch(str(runs.trace(PLAIN)), 0.0, writes=False)])
    runs.trace(PLAIN).write_bytes(runs.trace(PLAIN).read_bytes() + b"\0")
    runs.make_all(both)
    assert runs.made() == [noisy(-1)]


@pytest.mark.parametrize("damage", [lambda data: data[:-1] + b"\0", lambda data: data[:-9], lambda data: b""])
def test_a_rerun_that_is_damaged_is_made_again(runs: _Made, damage: Callable[[bytes], bytes]) -> None:
    """Nothing is judged by what is not as it was left; nor by what has taken the place of another."""
    both = [noisy(1), noisy(-1)]
    runs.make_all(both)
    trace, other = map(runs.trace, both)
    trace.write_bytes(damage(trace.read_bytes()))
    runs.made()
    runs.make_all(both)
    assert runs.made() == both[:1]
    other.write_bytes(trace.read_bytes())
    runs.make_all(both)
    assert runs.made() == both[1:]


def test_a_file_that_was_changed_while_a_run_went_on_is_not_what_it_has_read(runs: _Made) -> None:
    """What is there at the end need not be what was read: such a run is made again, also if all stays as it is."""
    for began, made in ((time.time() - 60, [noisy(1)]), (time.time() + 60, [])):
        runs.make_all([noisy(1)])
        keep_depends(runs.directory / noisy(1), [Touch(str(runs.directory / "data"), began, writes=False)])
        runs.made()
        runs.make_all([noisy(1)])
        assert runs.made() == made


def test_fewer_are_made_at_once_where_there_is_little_room(runs: _Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as the machine has cores, or as fit; and none where not even one does."""
    size = runs.trace(PLAIN).stat().st_size
    monkeypatch.setattr(reference_runs, "cores", lambda: 2)
    names = [noisy(1), noisy(-1), noisy(2)]
    for free, expected in ((9, [2, 1]), (1, [1, 1, 1])):
        monkeypatch.setattr(reference_runs, "_free", lambda _, free=free: free * size)
        assert [len(some) for some in runs._batches(names)] == expected
    monkeypatch.setattr(reference_runs, "_free", lambda _: size - 1)
    with pytest.raises(NoRoom, match="reruns of the reference are to be made"):
        Runs.make(runs, names[:1])
