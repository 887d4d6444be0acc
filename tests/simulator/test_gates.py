"""Tests of gates: points of a program at which a task waits for the parent."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from simulator import Topology, UsageError
from simulator.faults.injector.gates import Gatekeeper
from tests.simulator._faults import own_agent
from tests.simulator._only_run import bare


def _three_steps(directory: Path) -> int:
    agent = own_agent()
    for number in range(1, 4):
        (directory / f"{agent.spec.task}-{number}").touch()
        agent.step(number)
    return os.getpid()


def test_a_task_stands_at_its_gate_until_it_is_opened(tmp_path: Path) -> None:
    """At `step:2` the second step has been announced and nothing of the third has been done."""
    with bare(Topology(worker=2)) as cluster:
        cluster.set_gate("worker:1", "step:2")
        with cluster.start(_three_steps, tmp_path) as run:
            assert run.wait_gate("worker:1", "step:2")
            run.wait_step("worker:0", 3)
            assert cluster.task("worker:1").steps == 2
            assert not (tmp_path / "worker:1-3").exists()
            run.open_gate("worker:1")
            result = run.join()
    assert (tmp_path / "worker:1-3").exists()
    assert [task.steps for task in result.values()] == [3, 3]


def test_a_gate_that_is_never_reached_is_told_from_one_that_is(tmp_path: Path) -> None:
    """`wait_gate` does not wait for a task that has finished without coming to its gate."""
    with bare(Topology(worker=1)) as cluster:
        cluster.set_gate("worker:0", "step:9")
        with cluster.start(_three_steps, tmp_path) as run:
            assert not run.wait_gate("worker:0", "step:9")
            run.join()


def test_gates_hold_for_one_run(tmp_path: Path) -> None:
    """The run after the one with gates passes freely."""
    with bare(Topology(worker=1)) as cluster:
        cluster.set_gate("worker:0", "step:1")
        with cluster.start(_three_steps, tmp_path) as run:
            assert run.wait_gate("worker:0", "step:1")
            run.kill()
            assert not cluster.task("worker:0").alive
        cluster.run(_three_steps, tmp_path)
    assert (tmp_path / "worker:0-3").exists()


def test_a_gate_for_an_unknown_task_is_a_usage_error() -> None:
    """The error comes before anything is started."""
    with bare(Topology(worker=1)) as cluster, pytest.raises(UsageError, match="worker:1"):
        cluster.set_gate("worker:1", "step:1")


def test_where_a_process_begins_no_step_is_held() -> None:
    """A straggler that begins late, or again, is late by its steps alone."""
    opened: list[str] = []
    task = SimpleNamespace(at_gate="step:0", incarnation=0)
    keeper = Gatekeeper({}, ["worker:1"])
    run: Any = SimpleNamespace(tasks={"worker:1": task}, gates={}, open_gate=lambda name, actions: opened.append(name))
    keeper._run = run
    keeper._delays["worker:1", "slow-1"] = 5.0
    keeper._visit("worker:1")
    assert (opened, keeper.held_steps("worker:1", "slow-1")) == (["worker:1"], 0)
    task.at_gate = "step:1"
    assert 0 < keeper._visit("worker:1") <= 5
    assert opened == ["worker:1"]
