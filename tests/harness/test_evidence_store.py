"""The store of evidence: arrays by their content, steps that are published whole, and what is said of damage."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.errors import NoRoom
from harness.evidence.steps import (
    GIVEN,
    EvidenceReader,
    EvidenceWriter,
    HeldVariable,
    PlaceValue,
    RunEvidence,
    Segment,
    StepEvidence,
    StepPlace,
)


def _rows(*numbers: float) -> Any:
    return np.array([[number, number / 2] for number in numbers], np.float32)


def test_an_array_that_does_not_change_is_stored_once(tmp_path: Path) -> None:
    """It is known by its content, also in later steps; what is read is what was put, with its dtype."""
    writer, reader = EvidenceWriter(tmp_path / "steps"), EvidenceReader(tmp_path / "steps")
    large = np.arange(1000, dtype=np.float32)
    for index in (1, 2):
        writer.begin(index)
        held = HeldVariable("w", 0, "copies", (writer.put(large),))
        words = PlaceValue(StepPlace(GIVEN, 0, 1), 0, (writer.put(np.array([b"one", b"two\0"], object)),))
        writer.publish(StepEvidence(index, (held,), (words,)))
    assert reader.steps == 2
    first, second = (reader.step(index) for index in (1, 2))
    assert first is not None
    assert second is not None
    assert first.before == second.before
    assert np.array_equal(reader.array(second.before[0].copies[0]), large)
    assert reader.array(second.passed[0].arrays[0]).tolist() == [b"one", b"two\0"]
    sizes = [(tmp_path / "steps" / f"{index}.step").stat().st_size for index in (1, 2)]
    assert sizes[0] > 4000
    assert sizes[1] < 1000


@pytest.mark.parametrize("steps", [0, 1])
def test_what_passes_between_steps_is_there_when_it_comes_again(steps: int, tmp_path: Path) -> None:
    """As an evaluation is given, before the first step too, that is not kept; and the next step is given the same."""
    writer, reader = EvidenceWriter(tmp_path / "steps"), EvidenceReader(tmp_path / "steps")
    for index in range(1, steps + 1):
        writer.begin(index)
        writer.publish(StepEvidence(index))
    writer.put(_rows(3, 4))
    if steps:
        writer.publish(StepEvidence(steps))  # as when it is over, which it was before
    writer.begin(steps + 1)
    own, again = writer.put(_rows(5)), writer.put(_rows(3, 4))
    writer.publish(StepEvidence(steps + 1))
    assert np.array_equal(reader.array(own), _rows(5))
    assert np.array_equal(reader.array(again), _rows(3, 4))


def test_the_dtype_counts_and_a_step_that_is_not_there_is_none(tmp_path: Path) -> None:
    """Equal bytes of another dtype are another array."""
    writer, reader = EvidenceWriter(tmp_path / "steps"), EvidenceReader(tmp_path / "steps")
    stored = [writer.put(np.zeros(2, kind)) for kind in ("float32", "int32")]
    assert stored[0] != stored[1]
    assert reader.step(1) is None
    assert not (tmp_path / "steps" / "1.step").exists()


def test_a_damaged_step_is_said(tmp_path: Path) -> None:
    """With the name of the file."""
    writer, reader = EvidenceWriter(tmp_path / "steps"), EvidenceReader(tmp_path / "steps")
    writer.publish(StepEvidence(1))
    path = tmp_path / "steps" / "1.step"
    path.write_bytes(path.read_bytes()[:8] + b"\xc1" * 40)
    with pytest.raises(ValueError, match=r"1\.step is damaged"):
        reader.step(1)


def test_a_disk_is_not_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run goes on without evidence of a step, which then is not judged."""
    writer, reader = EvidenceWriter(tmp_path / "steps"), EvidenceReader(tmp_path / "steps")
    writer.put(np.zeros(1000))
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=100_000))
    with pytest.raises(NoRoom):
        writer.publish(StepEvidence(1))
    assert reader.steps == 0


@pytest.mark.parametrize(
    ("shapes", "axes"),
    [
        pytest.param([((4, 5), (4, 5)), ((2, 5), (2, 5))], set(), id="a last batch"),
        pytest.param([((4, 5), (4, 5)), ((1, 5), (0, 5))], set(), id="a last row"),
        pytest.param([((4, 5), (4, 5)), ((4, 5), (0, 5))], {0}, id="the end of one replica's files"),
        pytest.param([((4, 5), (4, 3))], {1}, id="padded by each"),
    ],
)
def test_axes_whose_sizes_one_device_cannot_rely_on(
    tmp_path: Path, shapes: list[tuple[tuple[int, int], ...]], axes: set[int]
) -> None:
    """Its graph is built for a step, and serves others."""
    writer, place = EvidenceWriter(tmp_path / "steps"), StepPlace(GIVEN, 0, 1)
    for index, given in enumerate(shapes, start=1):
        writer.begin(index)
        stored = [(writer.put(np.zeros(shape, np.float32)),) for shape in given]
        passed = tuple(PlaceValue(place, replica, arrays) for replica, arrays in enumerate(stored))
        writer.publish(StepEvidence(index, (), passed))
    assert RunEvidence([Segment((str(tmp_path / "steps"),))]).uneven_axes(place, 0) == axes


def test_axes_along_which_batches_are_not_alike_from_call_to_call(tmp_path: Path) -> None:
    """Those of evaluations by themselves, which may be of other sizes."""
    writer, place = EvidenceWriter(tmp_path / "steps"), StepPlace(GIVEN, 0, 1)

    def passed(shape: tuple[int, ...]) -> tuple[PlaceValue, ...]:
        return tuple(PlaceValue(place, replica, (writer.put(np.zeros(shape, np.float32)),)) for replica in range(2))

    for index in (1, 2):
        writer.begin(index)
        evaluations = tuple(passed((rows, 5)) for rows in (4, 3, 2)[:index])
        writer.publish(StepEvidence(index, (), passed((4, 5)), evaluations=evaluations))
    evidence = RunEvidence([Segment((str(tmp_path / "steps"),))])
    assert evidence.varying_axes(place, 0, evaluated=False) == set()
    assert evidence.varying_axes(place, 0, evaluated=True) == {0}
    assert evidence.varying_axes(StepPlace(GIVEN, 1, 1), 0, evaluated=True) == set()
