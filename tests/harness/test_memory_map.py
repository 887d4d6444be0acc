"""Traces are read as far as somebody looks at them, and what was read need not stay in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import psutil

from harness.evidence.counters import Counters
from harness.evidence.lru_cache import LruCache
from harness.evidence.memory_map import map_file, release_pages
from harness.evidence.observed import history
from harness.evidence.trace import Array, Header, Step, Variable, merge, read_client
from harness.evidence.writing import TraceWriter

MEBI = 1 << 20


def _from_files() -> int:
    """Bytes of files that this process has in memory."""
    return int(psutil.Process().memory_info().shared)


def test_what_was_looked_at_is_given_back_and_can_be_read_again(tmp_path: Path) -> None:
    """Also after the file was removed, as a run's directory is in the end."""
    path = tmp_path / "bytes"
    path.write_bytes(np.arange(64 * MEBI // 8, dtype=np.int64).tobytes())
    numbers = np.frombuffer(map_file(path), np.int64)
    path.unlink()
    total, full = int(numbers.sum()), _from_files()
    release_pages()
    assert full - _from_files() > 48 * MEBI
    assert int(numbers.sum()) == total


def test_an_empty_file_has_no_bytes(tmp_path: Path) -> None:
    """It cannot be mapped, and is no error."""
    (tmp_path / "empty").touch()
    assert len(map_file(tmp_path / "empty")) == 0


def test_a_long_training_needs_no_more_memory_than_a_short_one(tmp_path: Path) -> None:
    """To go through the variables of 40 steps of 10 MiB takes what a few steps take."""
    writer = TraceWriter(tmp_path / "local-0.trace")
    writer.write(Header("local:0", 0, "default", 1, 1, 1, 0))
    weights = Array.of(np.zeros(10 * MEBI // 4, np.float32))
    for index in range(1, 41):
        writer.write(Step(index, 0.0, variables=(Variable("w", (weights,)),)))
    writer.write(Counters())
    writer.close()
    before = psutil.Process().memory_info().rss
    run = merge([read_client(tmp_path / "local-0.trace")])
    most = 0
    for values in history(run, "variables").values():
        assert not values["w"].array.any()
        most = max(most, psutil.Process().memory_info().rss - before)
    assert most < 250 * MEBI


def test_arrays_are_equal_bit_for_bit() -> None:
    """Of the same dtype and shape; what is zero may differ in its sign."""
    zeros = np.zeros(3, np.float32)
    same = Array.of(zeros.copy())
    assert (Array.of(zeros) == same, Array.of(zeros) != same) == (True, False)
    assert Array.of(zeros) != Array.of(-zeros)
    assert Array.of(zeros) != Array.of(zeros.astype(np.float64))
    assert Array.of(zeros) != Array.of(zeros.reshape(3, 1))
    assert Array.of(zeros) != zeros.tobytes()


def test_what_was_used_last_is_kept_as_far_as_it_is_small() -> None:
    """Of several the one that was used longest ago goes; one that is too large for itself stays until the next."""
    made: list[int] = []

    def make(key: int) -> str:
        made.append(key)
        return "x" * key

    latest = LruCache(10, make, len)
    assert [len(latest[key]) for key in (4, 5, 4, 3)] == [4, 5, 4, 3]
    assert made == [4, 5, 3]
    assert (latest[4], made) == ("x" * 4, [4, 5, 3])
    assert len(latest[5]) == 5
    assert len(latest[30]) == 30
    assert len(latest[30]) == 30
    assert made == [4, 5, 3, 5, 30]
