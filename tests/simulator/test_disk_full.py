"""`disk_full` with a directory: a file system that really has no room, and gets it back."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from simulator import UsageError
from simulator.faults.kinds import disk_full
from simulator.machines.local.small_disk import call_on_small_disk
from tests.simulator._faults import plan_of, run_steps

WRITING = "tests.simulator._writing"
MIB = 2**20


@pytest.mark.usefixtures("mounts")
def test_every_write_fails_until_the_room_is_back(tmp_path: Path) -> None:
    """Between the two steps the struck task's writes fail with ENOSPC, and afterwards none does; no file is left."""
    fault = "kind=disk_full,task=worker:1,directory=DISK,size=16KiB,step=2,until=5"
    found = call_on_small_disk(WRITING, tmp_path / "disk", 8 * MIB, fault)
    assert found["failure"] == ""
    assert found["wrote"]["worker:1"] == ["ok", "ok", *[str(errno.ENOSPC)] * 3, "ok", "ok", "ok"]
    fired, undone = found["events"]
    assert (fired["environment"], fired["effect"]["refused"]) == (True, "ENOSPC")
    assert 7 * MIB < fired["effect"]["filled_bytes"] < 8 * MIB
    assert undone["effect"]["free_bytes"] > 7 * MIB
    assert found["left"] == []


@pytest.mark.full
@pytest.mark.usefixtures("mounts")
def test_a_large_file_system_is_not_filled(tmp_path: Path) -> None:
    """Filling it would take the room from everybody: the run fails and says how much is free."""
    fault = "kind=disk_full,task=worker:1,directory=DISK,step=2"
    found = call_on_small_disk(WRITING, tmp_path / "disk", 6 * 2**30, fault)
    assert "has 6.442GB free, and no more than 4.295GB are filled; use a small one" in found["failure"]
    assert set(found["wrote"]["worker:1"]) == {"ok"}


def test_a_disk_is_filled_also_where_others_write_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The room that was free a moment ago is not there any more: the rest is filled in smaller parts."""
    room, given = 10 * MIB, list[int]()

    def free(directory: str) -> int:
        return room - sum(given) + (MIB if len(given) < 1 else 0)  # of which somebody takes one before the first part

    def allocate(file: int, start: int, more: int) -> None:
        assert start == sum(given)
        if more > room - sum(given):
            raise OSError(errno.ENOSPC, "No space left on device")
        given.append(more)

    monkeypatch.setattr(disk_full, "_free", free)
    monkeypatch.setattr(os, "posix_fallocate", allocate)
    assert disk_full._fill(0, str(tmp_path), 0) == sum(given) == room


def test_a_directory_that_is_not_there_fails_the_run(tmp_path: Path) -> None:
    """The fault had no effect, and the message says why."""
    with pytest.raises(Exception, match=r"FileNotFoundError.*nowhere"):
        run_steps(plan_of(f"kind=disk_full,task=worker:1,directory={tmp_path}/nowhere,step=2"), tmp_path / "out")


def test_an_empty_directory_is_a_usage_error() -> None:
    """It would mean nothing."""
    with pytest.raises(UsageError, match="directory is empty"):
        plan_of("kind=disk_full,task=worker:1,directory=,step=2")
