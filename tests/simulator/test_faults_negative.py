"""A fault that cannot fire, or fires without an effect, fails the run; so does a task that does not recover."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simulator import Cluster, RunFailed, Topology
from simulator.faults import (
    Bitflip,
    Crash,
    CrashLoop,
    DiskFull,
    Kill,
    Nan,
    Oom,
    Pause,
    Preempt,
    Restart,
    Slow,
    TornCheckpoint,
)
from tests.simulator._faults import events, own_agent, plan_of, run_steps
from tests.simulator._only_run import bare, failure_of

# One of each kind, with a trigger that never comes.
NEVER = [
    Kill("worker:1", step=99),
    Crash("worker:1", step=99),
    Preempt("worker:1", step=99),
    Pause("worker:1", step=99),
    Slow("worker:1", factor=2.0, step=99),
    Slow("worker:1", per_step="1ms", step=99),
    Restart("worker:1", step=99),
    CrashLoop("worker:1", step=99),
    DiskFull("worker:1", step=99),
    Oom("worker:1", step=99),
    Nan("worker:1", target="variable", step=99),
    Bitflip("worker:1", target="variable", step=99),
    TornCheckpoint(directory="nowhere", step=99),
    Kill("worker:1", log="never written"),
    Kill("worker:1", time="25s"),
    *(
        f"kind={kind},src=worker:0,dst=worker:1,of=worker:0,step=99"
        for kind in ("delay,delay=1ms", "jitter,jitter=1ms", "rate,rate=1MB/s", "stall", "partition", "flap")
    ),
]


def _failure(act: Callable[[], Any]) -> RunFailed:
    with pytest.raises(RunFailed) as caught:
        act()
    return caught.value


@pytest.mark.parametrize("fault", NEVER)
def test_a_fault_that_cannot_fire_fails_the_run(tmp_path: Path, fault: str) -> None:
    """The training itself ends well, and the run says which fault did not happen."""
    failure = _failure(lambda: run_steps(plan_of(fault), tmp_path, count=2))
    assert (failure.root_cause.task, failure.root_cause.kind) == ("plan", "FaultNotFired")
    assert events(tmp_path, "fired", "undone") == []
    assert [task.error for task in failure.result.values()] == [None, None]


def _survive() -> None:
    """Catch whatever the agent raises, as a program with a bare `except` does."""
    agent = own_agent()
    for number in range(1, 5):
        try:
            agent.step(number)
        except BaseException:  # noqa: BLE001 - just such a program
            continue


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (Crash("worker:1", step=2), "ended otherwise than by exception"),
        (Oom("worker:1", step=2), "ended otherwise than by MemoryError"),
    ],
)
def test_a_task_that_survives_its_death_fails_the_run(tmp_path: Path, fault: str, why: str) -> None:
    """The program swallowed the exception, so that what the plan wanted to see did not happen."""
    failure = failure_of(bare(Topology(worker=2), faults=plan_of(fault), out=tmp_path), _survive)
    assert failure.root_cause.kind == "FaultWithoutEffect"
    assert why in failure.root_cause.message


@pytest.mark.parametrize("kind", ["kill", "restart", "crash_loop", "preempt", "pause", "slow,factor=2"])
def test_a_fault_of_a_dead_task_has_no_effect(tmp_path: Path, kind: str) -> None:
    """Who was killed two steps before cannot be struck again."""
    plan = plan_of(Kill("worker:1", of="worker:0", step=2), f"kind={kind},task=worker:1,of=worker:0,step=4")
    failure = _failure(lambda: run_steps(plan, tmp_path, struck=1))
    assert failure.root_cause.kind == "FaultWithoutEffect"
    assert "had ended before" in failure.root_cause.message


def test_damage_to_no_file_has_no_effect(tmp_path: Path) -> None:
    """There must be a checkpoint to be torn."""
    failure = _failure(lambda: run_steps(plan_of(TornCheckpoint(directory=tmp_path, step=2)), tmp_path / "out"))
    assert "no file *.data-*" in failure.root_cause.message


def test_a_restart_that_the_run_does_not_live_to_see_is_waited_for(tmp_path: Path) -> None:
    """All others have finished long before the restart; the run waits for the new incarnation all the same."""
    result = run_steps(plan_of(Kill("worker:1", step=1, restart="400ms")), tmp_path, count=2)
    assert (result["worker:1"].incarnation, result["worker:1"].value) == (1, 1)


def _never_again() -> None:
    """worker:1 announces three steps, and then nothing any more."""
    agent = own_agent()
    for number in range(1, 4):
        agent.step(number)
    if agent.spec.task == "worker:1":
        threading.Event().wait()


def test_no_progress_after_the_healing_fails_the_run_at_once(tmp_path: Path) -> None:
    """A task that stays silent although all faults are undone is named, without waiting for the run's timeout."""
    plan = plan_of(Pause("worker:1", step=3), heal="1500ms", progress="1s")
    with Cluster(Topology(worker=2), preload=(), timeout=60, faults=plan, out=tmp_path) as cluster:
        cluster.warm_up()
        failure = _failure(lambda: cluster.run(_never_again))
    assert (failure.root_cause.task, failure.root_cause.kind) == ("worker:1", "NoProgress")
    assert failure.result.seconds < 20


def test_a_failure_that_nobody_planned_is_still_one(tmp_path: Path) -> None:
    """A planned death of one task does not excuse another's."""

    def body() -> None:
        agent = own_agent()
        agent.step(1)
        raise ValueError("own failure")

    plan = plan_of(Kill("worker:1", step=1))
    failure = failure_of(bare(Topology(worker=2), faults=plan, out=tmp_path), body)
    assert [cause.task for cause in failure.causes] == ["worker:0"]
