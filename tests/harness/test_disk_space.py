"""A disk that cannot hold a verification is one clear error, before it is full."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from harness import NoRoom
from harness.evidence.counters import Counters
from harness.evidence.trace import Array, Header, Step, Variable, read_client
from harness.evidence.writing import TraceWriter
from harness.running import reference_runs
from simulator.capabilities.namespaces import try_namespaces
from simulator.machines.local.small_disk import call_on_small_disk
from tests.harness._small_cache import STEP_BYTES

_MIB = 2**20
_STEP = Step(1, 0.0, variables=(Variable("w", (Array.of(np.zeros(_MIB // 4, np.float32)),)),))


def _disk(free: int) -> os.statvfs_result:
    """What is said of a disk with so much room."""
    return os.statvfs_result((4096, 4096, 2**40, free // 4096, free // 4096, 0, 0, 0, 0, 255))


def test_a_reference_ends_at_the_first_step_that_leaves_too_little_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 10 MiB with four more files like its own to come, that is the second step of 1 MiB and a little."""
    monkeypatch.setattr(os, "fstatvfs", lambda file: _disk(10 * _MIB - os.fstat(file).st_size))
    writer = TraceWriter(tmp_path / "local-0.trace", beside=4)
    writer.write(Header("local:0", 0, "default", 1, 1, 1, 0))
    writer.write(_STEP)
    with pytest.raises(NoRoom) as raised:
        writer.write(_STEP)
    said = str(raised.value)
    assert said.startswith(
        f"{tmp_path} has no room for this verification: the reference has recorded 2.098MB in 2 steps"
    )
    assert re.search(r"; 8\.39\d*MB have to fit there yet, and 8\.38\d*MB are free\. Take fewer steps", said), said
    writer.close()
    assert len(read_client(tmp_path / "local-0.trace").steps) == 2


@pytest.mark.parametrize("beside", [0, 4])
def test_what_fits_is_written(beside: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for all of it; and by whom nothing is to come after, to the last byte."""
    free = 0 if beside == 0 else 2**40
    monkeypatch.setattr(os, "fstatvfs", lambda _: _disk(free))
    writer = TraceWriter(tmp_path / "local-0.trace", beside)
    writer.write(Header("local:0", 0, "default", 1, 1, 1, 0))
    for _ in range(10):
        writer.write(_STEP)
    writer.write(Counters())
    writer.close()
    assert len(read_client(tmp_path / "local-0.trace").steps) == 10


def test_as_many_reruns_are_made_at_once_as_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One at least, since whether that one fits is asked when it is made."""
    monkeypatch.setattr(os, "statvfs", lambda _: _disk(3 * _MIB))
    assert [reference_runs._fitting(tmp_path, size, 4) for size in (1, _MIB, 2 * _MIB, 9 * _MIB)] == [4, 3, 1, 1]


@pytest.fixture
def disk() -> Iterator[Path]:
    """A directory with a short path, for a small file system."""
    trials = try_namespaces()
    if why := trials["user_namespaces"] or trials["mount_namespaces"]:
        pytest.skip(f"this machine has no mount namespaces: {why}")
    with tempfile.TemporaryDirectory(prefix="lockstep-test-", dir="/tmp") as directory:
        yield Path(directory) / "disk"


@pytest.mark.full
def test_a_reference_that_has_no_room_is_one_clear_error(disk: Path) -> None:
    """Said by who verifies, with numbers and what to do, before the disk is full; and nothing of it stays there."""
    found = call_on_small_disk("tests.harness._small_cache", disk, 16 * STEP_BYTES, "1000", timeout=60)
    assert "no room for this verification: the reference has recorded" in found["text"]
    assert "Take fewer steps" in found["text"]
    assert found["bytes"] == 0


@pytest.mark.full
def test_a_verification_that_fits_comes_to_its_end(disk: Path) -> None:
    """With what it leaves over as small as the error above has it."""
    found = call_on_small_disk("tests.harness._small_cache", disk, 16 * STEP_BYTES, "6", timeout=60)
    assert found["text"] == ""
    assert found["outcome"] == "consistent"
