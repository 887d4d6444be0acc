"""Runs whose tasks were started again, in parts: what is aligned with what, and what is found wrong."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest

from harness.evidence.parts import Part, Parts, read_parts
from harness.evidence.reference import Reference
from harness.evidence.restart_files import FOUND, FoundFiles, note_found, traces_of
from harness.evidence.saves import JOURNAL
from harness.evidence.trace import ClientTrace, Final, RunTrace
from harness.evidence.writing import write_client
from harness.judging.judge import judge_parts
from harness.judging.laws.protocol import Judgement
from tests.harness._traces import client, step, variable

STEPS = 8
EVERY = range(1, STEPS + 1)


def _client(done: Sequence[int], task: str = "local:0", clients: int = 1, off_at: int = 0) -> ClientTrace:
    """What a process records that does these steps of the training; its value is wrong at step `off_at`."""
    steps = [
        step(index, loss=float(number), variables={"w": np.array([1.5 * number + (number == off_at)])})
        for index, number in enumerate(done, start=1)
    ]
    ended = STEPS in done
    final = Final(at=9.0, variables=(variable("w", np.array([1.5 * STEPS])),)) if ended else None
    return client(*steps, task=task, clients=clients, final=final)


REFERENCE = Reference(RunTrace((_client(EVERY),)))


def _part(done: Sequence[int], off_at: int = 0) -> Part:
    return Part(RunTrace((_client(done, off_at=off_at),)), len(done), len(done))


def _judged(*parts: Part, saved: tuple[str, ...] = ()) -> dict[str, Judgement]:
    *earlier, last = parts
    judgements = judge_parts(Parts(last.trace, tuple(earlier), saved), REFERENCE).judgements
    assert any(judgement.status == "held" for judgement in judgements)
    return {judgement.law: judgement for judgement in judgements if judgement.status == "broken"}


@pytest.mark.parametrize(
    "parts",
    [
        [EVERY],
        [range(1, 6), range(5, 9)],  # saved every second step
        [range(1, 6), range(6, 9)],  # saved every step
        [range(1, 4), range(3, 6), range(5, 9)],
        [range(1, 6), range(5, 7), range(5, 8), range(7, 9)],
        [EVERY, []],  # killed after its last step
        [range(1, 2), range(1, 3), EVERY],  # before anything was saved
    ],
    ids=str,
)
def test_a_run_that_only_lost_time_is_right(parts: list[Sequence[int]]) -> None:
    """However often it was killed, and whatever it did again."""
    assert _judged(*map(_part, parts)) == {}


def test_a_wrong_value_is_found_in_each_part() -> None:
    """Also where a later part has done that step again, rightly; the text says in which."""
    parts = [range(1, 6), range(4, 7), range(5, 9)]
    for number, off_at in ((1, 5), (2, 4), (3, 8)):
        found = _judged(*(_part(done, off_at if k == number else 0) for k, done in enumerate(parts, start=1)))
        assert "variables_match_reference" in found
        texts = [finding.text for judgement in found.values() for finding in judgement.findings]
        assert all(f"in part {number} of 3, " in text for text in texts)
        assert any(f"step {off_at}" in text for text in texts)


def test_steps_that_were_never_done_are_found() -> None:
    """A run that was killed after step 3 cannot go on with step 6."""
    found = _judged(_part(range(1, 4)), _part(range(6, 9)))
    assert "2 steps were never done" in found["resumes_exactly"].findings[0].text
    found = _judged(_part(range(1, 4)), _part(range(3, 5)), _part(range(7, 9)))
    assert "2 steps were never done" in found["resumes_exactly"].findings[0].text


def test_a_fresh_start_is_wrong_if_something_was_saved() -> None:
    """With nothing in record.directory it is right, which the test above has."""
    found = _judged(_part(range(1, 6)), _part(EVERY), saved=("checkpoints/ckpt-1.index",))
    assert list(found) == ["resumes_exactly"]
    assert "nothing was resumed" in found["resumes_exactly"].findings[0].text


def test_a_task_may_be_ahead_of_the_others_when_it_is_killed() -> None:
    """What one client has recorded and another has not is not held against either, and counts as done."""
    tasks = [("worker:0", range(1, 6)), ("worker:1", range(1, 5))]
    before = RunTrace(tuple(_client(done, task, clients=2) for task, done in tasks))
    last = RunTrace(tuple(_client(range(6, 9), task, clients=2) for task, _ in tasks))
    judged = judge_parts(Parts(last, (Part(before, 4, 5),)), REFERENCE)
    assert {judgement.status for judgement in judged.judgements} == {"held", "not_judged"}
    assert judged.last.interruption is not None
    assert (judged.last.interruption.at_step, judged.last.interruption.resumed_at) == (5, 5)


def _leave(traces: Path, kept: Path, incarnation: int, done: Sequence[int], at: float, task: str = "local:0") -> None:
    """The trace of a process whose first step was at this time, one second each; it began just before it."""
    folder = traces_of(traces, incarnation)
    folder.mkdir(parents=True, exist_ok=True)
    if incarnation:
        note_found(folder, task, kept, time.monotonic())
        note = folder / f"{task.replace(':', '-')}.{FOUND}"
        found = msgspec.json.decode(note.read_bytes(), type=FoundFiles)
        note.write_bytes(msgspec.json.encode(msgspec.structs.replace(found, began=at - 0.5)))
    trace = _client(done, task, clients=1 if task == "local:0" else 2)
    steps = tuple(msgspec.structs.replace(each, at=at + each.index - 1) for each in trace.steps)
    write_client(folder / f"{task.replace(':', '-')}.trace", msgspec.structs.replace(trace, steps=steps))


def test_the_traces_of_every_incarnation_are_read(tmp_path: Path) -> None:
    """One that died before it had begun a trace is left out; files saved in time are known as such.

    What was there before the first step is no save, such as a configuration; nor is what TensorBoard reads.
    """
    traces, kept = tmp_path / "traces", tmp_path / "kept"
    kept.mkdir()
    now = time.monotonic()
    for name, age in (("config", 60.0), ("old", 18.5), ("events.out.tfevents.1", 18.5), ("new", 0.0)):
        (kept / name).write_text("state")
        os.utime(kept / name, (time.time() - age, time.time() - age))
    (kept / "empty").touch()
    _leave(traces, kept, 0, range(1, 4), now - 20)
    traces_of(traces, 1).mkdir()
    (traces_of(traces, 1) / "local-0.trace").write_bytes(b"\x07")
    _leave(traces, kept, 2, range(3, 9), now - 10)
    parts = read_parts(tmp_path)
    assert [part.common for part in parts.earlier] == [3]
    assert len(parts.last.clients[0].steps) == 6
    assert parts.saved == ("old",)


def test_processes_that_trained_together_are_one_part(tmp_path: Path) -> None:
    """Whatever their numbers are: worker 1 was started again alone, found nobody, and once more with the job."""
    traces, kept = tmp_path / "traces", tmp_path / "kept"
    kept.mkdir()
    for task, incarnations in (("worker:0", (0, 1, 2)), ("worker:1", (0, 2, 4))):
        for number, (done, at) in enumerate([(range(1, 4), 10.0), (range(3, 6), 20.0), (range(5, 9), 30.0)]):
            _leave(traces, kept, incarnations[number], done, at + (task == "worker:1") * 0.2, task)
    _leave(traces, kept, 3, [5], 26.0, "worker:1")  # the other was killed before it had recorded that step
    parts = read_parts(tmp_path)
    assert [(len(part.trace.clients), part.common, part.furthest) for part in parts.earlier] == [
        (2, 3, 3),
        (2, 3, 3),
        (1, 0, 1),
    ]
    judgements = judge_parts(parts, REFERENCE).judgements
    assert {judgement.status for judgement in judgements} == {"held", "not_judged"}


def test_what_a_process_wrote_after_its_last_step_is_no_save(tmp_path: Path) -> None:
    """Nor when others have come since."""
    traces, kept = tmp_path / "traces", tmp_path / "kept"
    kept.mkdir()
    now, today = time.monotonic(), time.time()
    for name, age in (("whole", 19.5), ("half of the first", 38.0), ("half of the second", 15.0)):
        (kept / name).write_text("state")
        os.utime(kept / name, (today - age, today - age))
    for incarnation, begun in enumerate((40, 20, 10)):
        _leave(traces, kept, incarnation, range(1, 3), now - begun)
    assert read_parts(tmp_path).saved == ("whole",)


@pytest.mark.parametrize(("died", "saved"), [(True, False), (False, True)])
def test_operations_say_how_old_a_file_is(tmp_path: Path, died: bool, saved: bool) -> None:
    """What was about to be renamed when its process died was not; a complete save that was moved away stays one."""
    traces, kept = tmp_path / "traces", tmp_path / "kept"
    kept.mkdir()
    now = time.monotonic()
    (kept / "file").write_text("state")
    os.utime(kept / "file", (time.time() - 19.5, time.time() - 19.5))
    for incarnation, begun in enumerate((20, 10)):
        _leave(traces, kept, incarnation, range(1, 3), now - begun)
    points: list[tuple[float, tuple[str, ...]]] = [(-18.5, ("write", "file")), (-18.4, ("rename", "other", "file"))]
    if not died:
        points = [(-19.6, ("write", "old")), (-19.4, ("rename", "file", "old")), (-18.5, ("write", "other"))]
    lines = [
        {"event": "point", "task": "local:0", "incarnation": 0, "point": "phase:", "what": what, "at": now + at}
        for at, what in points
    ]
    (traces / JOURNAL).write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    assert (read_parts(tmp_path).saved == ("file",)) == saved


@pytest.mark.parametrize("repeated", [0, 1])
def test_closures_are_counted_over_all_parts(repeated: int) -> None:
    """Each process counts its own: what was scheduled before it is known from the parts before, and added."""

    def part(done: Sequence[int], *, ended: bool) -> RunTrace:
        counts = [
            step(
                index,
                scheduled=index,
                variables={"w": np.array([1.5 * number]), "iterations": np.array(number + repeated)},
            )
            for index, number in enumerate(done, start=1)
        ]
        scheduled = len(done) if ended else None
        return RunTrace((client(*counts, task="chief:0", scheduled=scheduled),))

    whole = Reference(part(EVERY, ended=True))
    earlier = [part(done, ended=False) for done in (range(1, 3), range(3, 5))]
    parts = Parts(part(range(5, 9), ended=True), tuple(Part(trace, 2, 2) for trace in earlier))
    broken = {law.law for law in judge_parts(parts, whole).judgements if law.status == "broken"}
    assert ("updates_counted" in broken) == bool(repeated)


@pytest.mark.parametrize(("noise", "status"), [(0.0, "held"), (0.9, "not_judged")])
def test_a_part_that_shows_too_little_is_not_judged(noise: float, status: str) -> None:
    """What a later part holds says nothing of it."""
    noisy = [
        msgspec.structs.replace(each, variables=(variable("w", np.array([1.5 * each.index * (1 + noise)])),))
        if each.index < 5
        else each
        for each in _client(EVERY).steps
    ]
    perturbed = (RunTrace((msgspec.structs.replace(_client(EVERY), steps=tuple(noisy)),)),)
    parts = Parts(_part(range(5, 9)).trace, (_part(range(1, 5)),))
    judgements = judge_parts(parts, Reference(REFERENCE.trace, perturbed)).judgements
    (found,) = (each for each in judgements if each.law == "variables_match_reference")
    assert found.status == status
    assert found.reason.startswith("before the interruption, the bound of") is (status == "not_judged")


@pytest.mark.parametrize("before", [(1, 2, 3, 4), (1, 2, 3, 3)])
def test_what_a_part_takes_as_given_is_of_that_part(before: tuple[int, ...]) -> None:
    """An order of its own, after a restart, is a condition; an example that came twice before that is none."""

    def trace(ids: Sequence[int], follows: bool = False) -> RunTrace:
        steps = (step(index, loss=1.0, examples=((number,),)) for index, number in enumerate(ids, start=1))
        found = client(*steps, dataset_orders=1)
        return RunTrace(
            (msgspec.structs.replace(found, header=msgspec.structs.replace(found.header, follows=follows)),)
        )

    parts = Parts(trace((5, 7, 6, 8)), (Part(trace(before), 4, 4),))
    judged = judge_parts(parts, Reference(trace(EVERY, follows=True)))
    broken = [each.law for each in judged.judgements if each.status == "broken"]
    assert broken == ([] if len({*before}) == len(before) else ["examples_match_reference"])
    assert [each.code for each in judged.conditions] == ["order_of_examples"]
