"""Faults at file operations, in collectives and in later incarnations, and the points that a journal notes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from simulator import Cluster, FaultPlan, RunFailed, RunResult, Topology, UsageError
from simulator.faults import Kill
from tests.simulator._faults import events, own_agent, plan_of, run_steps

ONE = Topology(worker=1)


def _save_twice(folder: str) -> list[str]:
    """Two saves in several operations: a file and its rename, one beside the directory, a tree that is removed."""
    agent, root = own_agent(), Path(folder)
    found = sorted(path.name for path in root.iterdir())
    for number in (1, 2):
        (root.parent / "elsewhere").write_text("not counted")
        (root / "state.tmp").write_text(str(number))
        (root / "state.tmp").replace(root / "state")
        json.loads((root / "state").read_text())
        (root / "old").mkdir(exist_ok=True)
        (root / "old" / "piece").touch()
        shutil.rmtree(root / "old")
        agent.step(number)
    return found


def _run(plan: FaultPlan, tmp_path: Path, **options: Any) -> RunResult:
    (tmp_path / "work").mkdir()
    with Cluster(ONE, preload=(), timeout=30, faults=plan, out=tmp_path / "out", restarts=1, **options) as cluster:
        return cluster.run(_save_twice, str(tmp_path / "work"))


@pytest.mark.full
def test_the_points_of_a_task_are_noted(tmp_path: Path) -> None:
    """With `points` the journal has each of them with what is done there, though no fault is planned."""
    result = _run(FaultPlan(points=True, files=str(tmp_path / "work")), tmp_path)
    assert result["worker:0"].incarnation == 0
    noted = [(event["point"], event["what"]) for event in events(tmp_path / "out", "point")]
    operations = [["write", "state.tmp"], ["rename", "state", "state.tmp"], ["write", "old/piece"], ["remove", "old"]]
    assert noted == [(f"phase:file_operation:{n}", what) for n, what in enumerate(operations * 2, start=1)]


@pytest.mark.parametrize(("nth", "found"), [(2, ["state.tmp"]), (8, ["old", "state"]), (5, ["state"])])
def test_a_task_dies_before_a_file_operation(tmp_path: Path, nth: int, found: list[str]) -> None:
    """What the next incarnation finds is what the operations before have left."""
    plan = plan_of(Kill("worker:0", phase="file_operation", nth=nth), files=str(tmp_path / "work"))
    result = _run(plan, tmp_path)
    assert (result["worker:0"].incarnation, result["worker:0"].value) == (1, found)


def test_an_operation_that_never_comes(tmp_path: Path) -> None:
    """The negative control: eight are counted, since others are elsewhere or only read."""
    with pytest.raises(RunFailed, match="its trigger never came"):
        _run(plan_of(Kill("worker:0", phase="file_operation", nth=9), files=str(tmp_path / "work")), tmp_path)


def test_a_later_incarnation_is_struck(tmp_path: Path) -> None:
    """A step that every incarnation comes to counts in the one that is named, also where another fault was before."""
    faults = (Kill("worker:0", step=2, restart="0s"), Kill("worker:0", step=2, incarnation=1, restart="0s"))
    result = run_steps(plan_of(*faults), tmp_path, workers=1, count=3)
    ended = [(each.number, each.steps, each.signal) for each in result["worker:0"].incarnations]
    assert ended == [(0, 2, "SIGKILL"), (1, 2, "SIGKILL"), (2, 3, None)]
    assert [event["gate"] for event in events(tmp_path, "gate")] == ["step:2", "step:2@1"]


def test_an_incarnation_that_never_comes(tmp_path: Path) -> None:
    """The negative control: nothing strikes the first one; and only steps and phases have incarnations."""
    with pytest.raises(RunFailed, match="its trigger never came"):
        run_steps(plan_of(Kill("worker:0", step=2, incarnation=1)), tmp_path, workers=1, count=3)
    with pytest.raises(UsageError, match="incarnation= says whose step or phase counts"):
        plan_of(Kill("worker:0", time="1s", incarnation=1))


def _reduce(count: int) -> float:
    """So many steps of two collectives each."""
    import tensorflow as tf

    agent = own_agent()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    @tf.function
    def twice() -> Any:
        def replica() -> Any:
            context = tf.distribute.get_replica_context()
            one = context.all_reduce("SUM", tf.constant(1.0))
            return context.all_reduce("SUM", one)

        return strategy.experimental_local_results(strategy.run(replica))[0]

    total = 0.0
    for number in range(1, count + 1):
        total += float(twice())
        agent.step(number)
    return total


@pytest.mark.full
def test_a_worker_dies_between_two_collectives_of_one_step(tmp_path: Path) -> None:
    """The other one stands in the collective and sees it; both begin again, and reduce what they should."""
    plan = plan_of(Kill("worker:1", phase="collective", nth=4), points=True)
    with Cluster(Topology(worker=2), timeout=90, faults=plan, out=tmp_path, restarts=1) as cluster:
        result = cluster.run(_reduce, 3)
    assert [task.value for task in result.values()] == [12.0, 12.0]
    assert [task.incarnations[0].steps for task in result.values()] == [1, 1]
    struck = [event for event in events(tmp_path, "gate") if event["gate"] == "phase:collective:4"]
    assert [event["task"] for event in struck] == ["worker:1"]
