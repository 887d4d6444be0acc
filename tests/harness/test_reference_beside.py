"""A run with noise that is begun while the one without comes to its end, before anybody knows whether it is needed."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness import verify
from harness.running import live_reference, reference
from harness.running.reference_request import FIRST_SEEDS
from harness.running.reference_runs import PLAIN, Runs, noisy
from harness.subject.program import Program
from tests.harness._beside import trains

NOISE = noisy(FIRST_SEEDS[0])


def reports(strategy: Any, record: Any) -> None:
    """One number, from which process it came."""
    record.step(loss=float(os.getpid()))


def _runs(place: Path) -> Runs:
    return Runs(Program.of(reports), place, seed=3, timeout=60)


def test_who_is_under_way_is_joined_and_not_started_again(tmp_path: Path) -> None:
    """Both are whole afterwards, each from its own process, and a third one is made as ever."""
    runs = _runs(tmp_path)
    with runs.beside([PLAIN, NOISE]):
        assert set(runs.begun) == {PLAIN, NOISE}
        runs.make([PLAIN])
        assert set(runs.begun) == {NOISE}
        runs.make([PLAIN, NOISE])
        assert not runs.begun
        runs.make([noisy(102)])
    assert all(runs.trace(name).exists() for name in (PLAIN, NOISE, noisy(102)))


def test_who_is_not_needed_is_ended(tmp_path: Path) -> None:
    """Whether nobody asks for it, or what was asked for has failed; what it has left does not count as made."""
    runs = _runs(tmp_path)
    with contextlib.suppress(ZeroDivisionError), runs.beside([PLAIN, NOISE]):
        pids = [task.pid for run in runs.begun.values() for task in run.tasks.values()]
        runs.make([PLAIN])
        raise ZeroDivisionError
    assert not runs.begun
    assert not any(pid and psutil.pid_exists(pid) for pid in pids)


@pytest.mark.parametrize(("least", "busy", "worth"), [
    (0, False, True),
    pytest.param(1 << 40, False, False, marks=pytest.mark.full),
    pytest.param(0, True, False, marks=pytest.mark.full),
])  # fmt: skip
def test_it_is_made_where_it_pays(least: int, busy: bool, worth: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the run has ended; not for a small training, nor where others have taken the core that the run has left."""
    monkeypatch.setattr(reference, "_WORTH_BYTES", least)
    monkeypatch.setattr(reference, "is_busy", lambda: busy)
    monkeypatch.setattr(live_reference, "is_busy", lambda: False)
    begun = []
    beside = Runs.beside

    def noted(runs: Runs, names: Any) -> Any:
        begun.append(list(names))
        return beside(runs, names)

    monkeypatch.setattr(Runs, "beside", noted)
    assert verify(trains, "mirrored-2").outcome == "consistent"
    assert begun == [[PLAIN], *([[noisy(seed) for seed in FIRST_SEEDS]] if worth else [])]


@pytest.mark.full
def test_its_bounds_are_those_of_a_run_that_is_made_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit: who made it when changes no number."""
    found = []
    monkeypatch.setattr(reference, "is_busy", lambda: False)
    monkeypatch.setattr(live_reference, "is_busy", lambda: False)
    for least in (0, 1 << 40):
        monkeypatch.setattr(reference, "_WORTH_BYTES", least)
        verdict = verify(trains, "mirrored-2")
        found.append([(law.law, law.worst_ratio, law.resolution) for law in verdict.judgements])
    assert found[0] == found[1]
