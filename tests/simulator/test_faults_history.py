"""Replay: the same plan and seed give the same history, and another one does not."""

from __future__ import annotations

from pathlib import Path

from simulator import FaultPlan
from simulator.faults import Kill, Pause
from simulator.faults.history import canonical_history
from tests.simulator._faults import plan_of, run_steps

PLAN = plan_of(
    Kill("worker:?", of="worker:*", step="3..5", restart="10ms"),
    Pause("worker:1", of="worker:0", step="8..9", duration="20ms"),
    seed=11,
)


def _history(plan: FaultPlan, out: Path, *, struck: int = 0) -> tuple[str, ...]:
    run_steps(plan, out, workers=3, struck=struck)
    return canonical_history(out / "0" / "journal.jsonl")


def test_two_runs_of_one_seed_have_one_history(tmp_path: Path) -> None:
    """Also a run of the plan that the first one saved."""
    first = _history(PLAN, tmp_path / "a", struck=2)
    assert _history(PLAN, tmp_path / "b", struck=2) == first
    assert _history(FaultPlan.load(tmp_path / "a" / "0" / "plan.json"), tmp_path / "c", struck=2) == first
    assert any("incarnation 1" in line for line in first)
    assert sum("fired at step=" in line for line in first) == 2


def test_another_seed_has_another_history(tmp_path: Path) -> None:
    """The negative control: history tells the difference."""
    histories = {_history(plan_of(Kill("worker:?", step="2..9"), seed=seed), tmp_path / str(seed)) for seed in range(3)}
    assert len(histories) > 1


def test_times_and_process_ids_are_left_out() -> None:
    """Only what a second run must repeat is in a history."""
    events = [
        {"t": 1.0, "event": "hello", "task": "worker:1", "incarnation": 0, "pid": 77},
        {"t": 2.0, "event": "step", "task": "worker:1", "number": 1, "at": 1.9},
        {"t": 3.0, "event": "gate", "task": "worker:1", "gate": "phase:after_save:1", "at": 2.9},
        {
            "t": 4.0,
            "event": "fired",
            "fault": "kill-1",
            "kind": "kill",
            "trigger": "step=1",
            "effect": {"ended": {"worker:1": "SIGKILL"}},
        },
        {"t": 5.0, "event": "undone", "fault": "kill-1", "kind": "kill", "effect": {"seconds": 0.1}},
    ]
    assert canonical_history(events) == (
        "worker:1: incarnation 0",
        "worker:1: step 1",
        "worker:1: stood at phase:after_save:1",
        "fault kill-1: fired at step=1, ended={worker:1: SIGKILL}",
        "fault kill-1: undone",
    )
