"""Trace files: what is written once, and what a process that was killed leaves."""

from __future__ import annotations

from pathlib import Path

import numpy as np

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
