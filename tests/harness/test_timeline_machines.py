"""Timelines of runs over machines, and orders of events that their clocks do not tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.report.timeline import as_data, lines, timeline_of
from harness.report.timeline.drawing import draw
from simulator.errors import TaskError
from simulator.results import RunFailed, RunResult, TaskResult
from tests.harness._journals import Script

OFF = {"id": "machine_lost-1", "kind": "machine_lost", "step": 2, "of": ["worker:2"], "task": ["worker:2"]}
PLACES = {"worker:0": "m0", "worker:1": "m1", "worker:2": "m2"}


def _lost(apart: float, error: float = 0.001) -> Script:
    """Machine m2 is lost at 2 s; worker 0 fails at 2.5 s, and worker 1 so much later; all goes on without m2."""
    script = Script(*PLACES)
    script.events[1] |= {"machines": PLACES, "clocks": {"m0": error, "m1": error, "m2": error}}
    for task in PLACES:
        script.add(0.5, "hello", task=task, incarnation=0, pid=1).steps(task, [1.0, 2.0])
    script.add(2.001, "gate", task="worker:2", incarnation=0, gate="step:2", at=2.0)
    script.add(2.1, "machine_lost", machine="m2", why="its stream ended", at=2.1)
    script.exit(2.1, "worker:2", -9).fired(2.2, OFF, lost={"m2": ["worker:2"]})
    script.fails(2.5, "worker:0").fails(2.5 + apart, "worker:1")
    script.exit(2.6, "worker:0", 1).exit(2.6, "worker:1", 1)
    script.add(13.2, "moved", machines={**PLACES, "worker:2": "m1"}, clocks={}, addresses={})
    for task in PLACES:
        script.add(13.3, "restart", task=task, incarnation=1, reason="policy job, 1 of 1")
        script.steps(task, [14.0], 1).exit(15.0, task, 0, 1)
    return script.undone(15.0, OFF)


def test_lives_and_machines_are_told() -> None:
    """Where each process was, and until when each machine was there; in text, data and picture."""
    timeline = timeline_of(_lost(0.1).events, [OFF])
    assert [life.machine for life in timeline.lives_of("worker:2")] == ["m2", "m1"]
    assert [(row.name, row.lost is None) for row in timeline.machines] == [("m0", True), ("m1", True), ("m2", False)]
    # 1 ms at the start, and 0.1 ms for each of the 15 s.
    assert timeline.machines[0].clock_error == pytest.approx(0.0025)
    text = "\n".join(lines(timeline))
    assert "worker:2, incarnation 1 on m1: from 13.30 s" in text
    assert "  m2: clock known to 2.50 ms; lost at 2.10 s: its stream ended" in text
    assert as_data(timeline)["machines"][2]["why"] == "its stream ended"
    words = [shape.words for shape in draw(timeline).shapes if shape.tag == "text"]
    assert words.count("m2") == 1
    assert "worker:1" in words
    assert any("m2, clock known to 2.50 ms; lost at 2.100 s" in shape.title for shape in draw(timeline).shapes)


@pytest.mark.parametrize(("apart", "undecided"), [(0.002, ("worker:1",)), (0.02, ())])
def test_orders_that_the_clocks_do_not_tell_are_undecided(apart: float, undecided: tuple[str, ...]) -> None:
    """Two failures on two machines whose clocks are known to 2.5 ms each."""
    fault = timeline_of(_lost(apart).events, [OFF]).faults[0]
    assert fault.detected is not None
    assert (fault.detected.task, fault.detected.undecided) == ("worker:0", undecided)
    told = "+0.50 worker:0 or worker:1 (undecided)" in "\n".join(lines(timeline_of(_lost(apart).events, [OFF])))
    assert told is bool(undecided)


def test_failures_on_one_machine_are_in_order() -> None:
    """They have one clock, however near they are; so have those of a run without machines."""
    script = _lost(0.0001)
    script.events[1]["machines"] = {**PLACES, "worker:1": "m0"}
    detected = timeline_of(script.events, [OFF]).faults[0].detected
    assert detected is not None
    assert detected.undecided == ()
    del script.events[1]["machines"], script.events[1]["clocks"]
    timeline = timeline_of(script.events, [OFF])
    assert timeline.machines == ()
    assert timeline.lives_of("worker:0")[0].machine is None


def _result(task: str, machine: str | None, error: TaskError) -> TaskResult:
    nothing: dict[str, Any] = {"value": None, "exit": 1, "signal": None, "log": "", "incarnation": 0, "steps": 0}
    return TaskResult(task, error=error, stopped=False, machine=machine, **nothing)


@pytest.mark.parametrize(
    ("apart", "other", "said"),
    [
        (0.001, "m1", "worker:0 failed first (or worker:1 on m1: the clocks of machines are not known so well): A: x"),
        (0.0, "m1", "worker:0 failed first (or worker:1 on m1"),
        (0.01, "m1", "worker:0 failed first: A: x"),
        (0.001, "m0", "worker:0 failed first: A: x"),
    ],
)
def test_the_root_cause_is_as_sure_as_the_clocks(apart: float, other: str, said: str) -> None:
    """The earlier one is named first, and beside it who may have been earlier."""
    causes = TaskError("worker:0", "A", "x", at=5.0), TaskError("worker:1", "B", "y", at=5.0 + apart)
    places = zip(("m0", other), causes, strict=True)
    tasks = {cause.task: _result(cause.task, machine, cause) for machine, cause in places}
    result = RunResult(tasks, 6.0, Path(), clocks={"m0": 0.001, "m1": 0.002})
    assert str(RunFailed(causes, result)).startswith(said)
