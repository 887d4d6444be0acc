"""What is read from a journal: points that were passed, where faults met them, and how the job recovered."""

from __future__ import annotations

from typing import Any

import pytest

from harness.search.situations import Coverage, Point, RunSituations, shown_by
from simulator import FaultPlan, Topology
from simulator.faults.protocol import PHASES

TWO = Topology(worker=2)
PLAN = FaultPlan(
    faults=(
        FaultPlan.parse_fault("kind=kill,task=worker:1,phase=file_operation,nth=2"),
        FaultPlan.parse_fault("kind=kill,task=worker:0,step=1,incarnation=1"),
    )
).expand(TWO)


def _event(event: str, task: str, incarnation: int = 0, **fields: Any) -> dict[str, Any]:
    return {"event": event, "task": task, "incarnation": incarnation, **fields}


def _save(event: str, task: str, incarnation: int, path: str) -> dict[str, Any]:
    return _event(event, task, incarnation, path=path, failed=None, unfinished=False)


def _journal(restored: str) -> list[dict[str, Any]]:
    """Worker 1 is killed within its first save, comes back with the other, and restores what is said."""
    dead = {"event": "fired", "tasks": ["worker:1"], "effect": {"ended": {"worker:1": "SIGKILL"}}}
    return [
        _event("step", "worker:0", number=1),
        _event("step", "worker:1", number=1),
        _save("save", "worker:0", 0, "ckpt-1"),
        _event("point", "worker:1", point="phase:file_operation:1", what=["write", "checkpoint"]),
        _event("point", "worker:1", point="phase:file_operation:2", what=["remove", "ckpt-7.index"]),
        _event("gate", "worker:1", gate="phase:file_operation:2"),
        _event("error", "worker:1", kind="Signal", planned=False),
        {**dead, "fault": "kill-1"},
        _event("error", "worker:0", kind="UnavailableError", planned=False),
        *(_event("hello", task, 1) for task in TWO.tasks),
        _save("restore", "worker:1", 1, restored),
        _event("step", "worker:1", 1, number=1),
    ]


def test_what_a_run_has_shown() -> None:
    """The point that the fault met, where the other worker was, how both recovered, and who died of what."""
    shown = shown_by(_journal("ckpt-1"), PLAN)
    met = Point("worker:1", 0, "phase:file_operation:2", "remove ckpt-7.index")
    assert shown.met == (met, None)
    assert met in shown.passed
    assert len(shown.passed) == 5
    assert met.place == "remove ckpt-N.index"
    assert shown.states == {
        ("order", "remove ckpt-N.index", "worker:0", "step"),
        ("recovery", "worker:0", "nothing restored"),
        ("recovery", "worker:1", "the last save"),
        ("death", "worker:0", "UnavailableError", "step"),
    }


def test_another_recovery_is_another_state() -> None:
    """The negative control: an older save is no last one; without a save there was nothing to restore."""
    assert ("recovery", "worker:1", "another save") in shown_by(_journal("ckpt-0"), PLAN).states
    unsaved = [event for event in _journal("ckpt-1") if event["event"] not in ("save", "restore")]
    assert ("recovery", "worker:1", "nothing saved") in shown_by(unsaved, PLAN).states


def test_a_point_names_the_fault_that_strikes_there() -> None:
    """Its trigger, made a plan, comes to the same gate, in the same incarnation."""
    for point in (Point("worker:1", 1, "phase:in_save:2"), Point("worker:0", 0, "step:3")):
        (fault,) = FaultPlan.from_mapping({"fault": [{"kind": "kill", "task": point.task, **point.trigger}]}).faults
        assert fault.gate == point.gate + ("@1" if point.incarnation else "")


def test_coverage_counts_what_is_new() -> None:
    """The same run twice shows nothing new; points that no fault has met are told."""
    shown = shown_by(_journal("ckpt-1"), PLAN)
    coverage = Coverage(points=shown.passed[:4])
    assert coverage.add(shown) == 5
    assert coverage.add(shown) == 0
    assert str(coverage).startswith("1 of 4 situations met by a fault, 1 way to die, 1 order between tasks, 2 states")
    assert "never: step=1 of worker:0; step=1 of worker:1; at=file-op:1 (write checkpoint) of worker:1" in str(coverage)
    assert coverage.to_json()["missing"] == [str(point) for point in coverage.missing]


def test_what_is_there_without_a_fault_is_not_new() -> None:
    """Points and states of the undisturbed run are those that a search begins with; another state is new."""
    shown = shown_by(_journal("ckpt-1"), PLAN)
    coverage = Coverage()
    coverage.begin(RunSituations(shown.passed, states=shown.states))
    assert coverage.points == shown.passed
    assert coverage.add(RunSituations(states=shown.states)) == 0
    assert coverage.add(RunSituations(states=shown.states | {("line", "worker", "began anew")})) == 1
    assert "1 log line" in str(coverage)


def test_the_end_of_an_epoch_is_a_place_of_its_own() -> None:
    """Step 1 of a task that was started again is another step of the whole, of which nothing is known."""
    passed = shown_by(_journal("ckpt-1"), PLAN, epoch_ends=[1]).passed
    ends = {(point.task, point.incarnation): point.place for point in passed if point.gate == "step:1"}
    assert ends == {
        ("worker:0", 0): "end of an epoch",
        ("worker:1", 0): "end of an epoch",
        ("worker:1", 1): "step",
    }


def test_a_point_is_told_as_a_fault_takes_it() -> None:
    """What stands before the task can be pasted into `--fault`, of every phase and of steps."""
    for gate in ("step:3", *(f"phase:{phase}:2" for phase in PHASES)):
        told = str(Point("worker:1", 0, gate)).partition(" ")[0]
        assert FaultPlan.parse_fault(f"kind=kill,task=worker:1,{told}").gate == gate


def test_logs_that_are_others_in_each_run_are_no_news_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """So an endless search keeps a bounded corpus; states of another kind, and lines that are known, count on."""
    monkeypatch.setattr("harness.search.situations._STATES_MAX", 2)
    coverage = Coverage()
    for text in ("a", "b", "c", "d"):
        coverage.add(RunSituations(states=frozenset({("line", "worker", text)})))
    assert len(coverage.states) == 2
    assert coverage.add(RunSituations(states=frozenset({("line", "worker", "a"), ("death", "worker:0", "Hang")}))) == 1
