"""Trace files: what is written once, and what a process that was killed leaves."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from harness.errors import TooLarge
from harness.evidence import writing
from harness.evidence.trace import read_client
from harness.evidence.writing import write_client
from tests.harness._traces import client, step, variable


def test_copies_that_are_the_same_are_written_once(tmp_path: Path) -> None:
    """Each replica has its own when they are read, in the same order, to the bit."""
    one, other = np.zeros(1000, np.float32), np.full(1000, -0.0, np.float32)

    def size(*copies: np.ndarray) -> int:
        file = tmp_path / "trace"
        write_client(file, client(step(1, variables={"w": variable("w", list(copies), "mirrored")})))
        (found,) = read_client(file).steps[0].variables or ()
        assert found.places == ()
        assert [each.numpy().tobytes() for each in found.copies] == [each.tobytes() for each in copies]
        return file.stat().st_size

    assert size(one, one.copy(), one.copy()) < size(one) + 100
    assert size(one, other, one.copy()) > size(one) + 4000
    assert size(other, one, one.copy()) < size(one) + 4100


def test_what_is_too_large_for_a_frame_is_said_with_task_and_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written before can be read; one byte less fits."""
    trace = client(step(1, loss=0.5), step(2, variables={"w": np.zeros(1000, np.float32)}))
    size = max(len(msgspec.msgpack.encode(frame)) for frame in trace.steps)
    monkeypatch.setattr(writing, "_FRAME_BYTES_MAX", size)
    write_client(tmp_path / "trace", trace)
    monkeypatch.setattr(writing, "_FRAME_BYTES_MAX", size - 1)
    with pytest.raises(TooLarge, match="what worker:0 has observed at step 2 cannot be kept: its arrays have 4kB"):
        write_client(tmp_path / "trace", trace)
    assert [each.index for each in read_client(tmp_path / "trace").steps] == [1]


def test_one_array_that_is_too_large_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MessagePack itself refuses it."""

    class Refusing:
        def encode_into(self, *_: object) -> None:
            raise OverflowError("Can't encode bytes-like objects longer than 2**32 - 1")

    monkeypatch.setattr(writing, "_ENCODER", Refusing())
    with pytest.raises(TooLarge, match="besides its steps"):
        write_client(tmp_path / "trace", client())
