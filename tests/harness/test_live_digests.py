"""Digests that are damaged or missing accuse nobody, and it is said what they do not tell."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from harness.evidence.deposit import DepositJob, ended, opened, trainings
from harness.evidence.digests import EXAMPLES, VARIABLES, Digest, DigestWriter, damaged_from, digests_of
from harness.evidence.trace import Header
from harness.live.doubts import doubts_of
from harness.live.state import divergences
from tests.harness._called import lockstep

_STEPS = 5


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """That of a process whose two replicas have had the same at each step, of which it has left one."""
    job = DepositJob(Header("local:0", 0, "mirrored-2", 2, 2, 1, 0), "", (), "/", "", {})
    found = opened(tmp_path, job)
    for of in (VARIABLES, EXAMPLES):
        writer = DigestWriter(found, of)
        for step in range(1, _STEPS + 1):
            writer.write(Digest(step, 1, (step, step), (step + 1, step + 1) if step % 2 else ()))
            writer.flush()
    (found / "5.step").touch()
    ended(found)
    return found


def test_whole_digests_are_read(tmp_path: Path, folder: Path) -> None:
    """All of them, and nothing is said of them."""
    (first, *_, last) = (found for (found,) in digests_of([folder]))
    assert (first, last) == (Digest(1, 1, (1, 1), (2, 2)), Digest(5, 1, (5, 5), (6, 6)))
    assert damaged_from(folder, whole=True) is None
    assert list(doubts_of(tmp_path)) == []


def test_a_bit_of_digests_accuses_nobody(tmp_path: Path, folder: Path) -> None:
    """Wherever it is: what is read are those before it, and it is said from which step on none is."""
    path = folder / VARIABLES
    data = path.read_bytes()
    whole = [found for (found,) in digests_of([folder])]
    (training,) = trainings(tmp_path)
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        read = [found for (found,) in digests_of([folder])]
        assert read == whole[: len(read)]
        assert damaged_from(folder, whole=False) == len(read) + 1, place
        assert list(divergences(training)) == []


def test_a_record_that_is_being_written_is_no_damage(folder: Path) -> None:
    """Where the process has ended it is."""
    path = folder / VARIABLES
    data = path.read_bytes()
    last = len(data) - 2 * 8 - 2 * 8 - 24
    for size in range(len(data)):
        path.write_bytes(data[:size])
        assert damaged_from(folder, whole=False) is None
        if size > last:
            assert damaged_from(folder, whole=True) == _STEPS


def test_digests_of_an_earlier_format_are_unknown(tmp_path: Path, folder: Path) -> None:
    """They accuse nobody."""
    (folder / VARIABLES).write_bytes(struct.pack("<QIHHqqqq", 1, 1, 2, 2, 1, 2, 3, 4))
    assert list(digests_of([folder])) == []
    (said,) = doubts_of(tmp_path)
    assert said.startswith(f"{folder / VARIABLES} is damaged, or an earlier Lockstep has left it: it is not judged")


def test_a_judge_notes_digests_that_it_cannot_read(tmp_path: Path, folder: Path) -> None:
    """With the file, and with what is not judged."""
    data = bytearray((folder / VARIABLES).read_bytes())
    data[-1] ^= 1
    (folder / VARIABLES).write_bytes(data)
    (folder / EXAMPLES).unlink()
    (folder / "5.step").rename(folder / "6.step.kept")
    (folder / "1.step").touch()
    notes = lockstep("judge", tmp_path, code=5).stderr
    assert f"note: {folder / VARIABLES} is damaged from step 5 on: from there it is not judged whether copies" in notes
    assert f"note: {folder / EXAMPLES} is missing: it is not judged whether a batch comes again too soon" in notes


def test_digests_that_are_not_written_yet_are_not_missing(tmp_path: Path, folder: Path) -> None:
    """The first step is there before them, and later ones are not."""
    (folder / VARIABLES).unlink()
    (folder / "ended").unlink()
    assert len(list(doubts_of(tmp_path))) == 1
    (folder / "5.step").rename(folder / "1.step")
    assert list(doubts_of(tmp_path)) == []


def test_a_step_that_one_process_has_not_digested_is_left_out(tmp_path: Path) -> None:
    """Else each later one would be held against another step of the other process."""
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder, steps in zip(folders, ((1, 2, 4, 5), (1, 3, 4, 5, 6)), strict=True):
        folder.mkdir()
        writer = DigestWriter(folder)
        for step in steps:
            writer.write(Digest(step, 1, (step,), ()))
        writer.flush()
    assert [[each.step for each in found] for found in digests_of(folders)] == [[1, 1], [4, 4], [5, 5]]
    assert list(digests_of([])) == []
