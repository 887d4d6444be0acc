"""A task that comes back when its peers are done: the job restarts, or fails early, or there is nothing to do."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from simulator import Cluster, RunFailed, Topology
from simulator.faults import Kill, Preempt
from simulator.run import population
from tests.simulator._faults import effects, events, own_agent, plan_of
from tests.simulator._only_run import failure_of, result_of, result_of_command
from tests.simulator._wire import eventually

WORKERS = Topology(worker=2)
# Both stand at their last step when worker:1 dies.
LATE = Kill("worker:1", of="worker:*", step=3, restart="10ms")
TIMEOUT = 30.0
bare = partial(Cluster, preload=(), timeout=TIMEOUT)


def _steps(alone: int, fails: int | None = None) -> int:
    """Three steps, as in synchronous training: incarnation `alone` of worker:1 waits for ever, for a peer that is gone.

    worker:0 ends at once in incarnation `fails`.
    """
    agent = own_agent()
    task, incarnation = agent.spec.task, agent.spec.incarnation
    if fails == incarnation:
        os._exit(7) if task == "worker:0" else threading.Event().wait()
    if (task, incarnation) == ("worker:1", alone):
        threading.Event().wait()
    for number in (1, 2, 3):
        agent.step(number)
    return int(incarnation)


def test_a_task_that_comes_back_after_its_peer_is_done_restarts_the_job(tmp_path: Path) -> None:
    """Under policy `job` the peer starts again as well, although nothing had failed; that is one restart."""
    result = result_of(bare(WORKERS, faults=plan_of(LATE), restarts=1, out=tmp_path), _steps, alone=1)
    assert [task.value for task in result.values()] == [1, 2]
    (left,) = events(tmp_path, "left_behind")
    assert (left["task"], left["incarnation"], left["done"]) == ("worker:1", 1, ["worker:0"])
    asked, *policy = [(event["task"], event["reason"]) for event in events(tmp_path, "restart")]
    assert asked == ("worker:1", "asked")
    assert policy == [(task, "policy job, 1 of 1") for task in ("worker:0", "worker:1")]


def test_a_peer_that_was_done_before_is_noticed_as_well() -> None:
    """The task is started again when the peer has long returned."""
    with bare(WORKERS, restarts=1) as cluster:
        cluster.set_gate("worker:1", "step:3")
        with cluster.start(_steps, alone=1) as run:
            assert run.wait_gate("worker:1", "step:3")
            run.wait(lambda: run.tasks["worker:0"].result is not None, "worker:0 to return", TIMEOUT)
            run.restart("worker:1")
            assert [task.value for task in run.join().values()] == [1, 2]


@pytest.mark.full
def test_without_a_restart_left_the_run_fails_at_once() -> None:
    """Not after the timeout, and the message says who waits for whom."""
    began = time.monotonic()
    failure = failure_of(bare(WORKERS, faults=plan_of(LATE), restarts=1), _steps, alone=2, fails=0)
    assert time.monotonic() - began < TIMEOUT / 2
    assert (failure.root_cause.task, failure.root_cause.kind) == ("worker:1", "LeftBehind")
    assert "worker:0 had been training before and is done" in failure.root_cause.message


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that comes back alone has half a second for its first step, and three times what its peers took."""
    monkeypatch.setattr(population, "_FIRST_STEP_SECONDS_MIN", 0.5)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("late", [False, True], ids=["before its peer is done", "after its peer was done"])
def test_without_a_restart_policy_the_run_fails_long_before_its_timeout(late: bool, tmp_path: Path) -> None:
    """A task that a fault alone brings back waits for the same peer in vain, who may be done before or after that."""
    # Both stand at their last step, or worker:0 has long returned when worker:1 dies.
    plan = plan_of(Kill("worker:1", step=3, restart="300ms") if late else LATE)
    began = time.monotonic()
    failure = failure_of(bare(WORKERS, faults=plan, out=tmp_path), _steps, alone=1)
    assert time.monotonic() - began < TIMEOUT / 2
    assert (failure.root_cause.task, failure.root_cause.kind) == ("worker:1", "LeftBehind")
    assert "worker:0 had been training before and is done" in failure.root_cause.message
    assert [event["task"] for event in events(tmp_path, "left_behind")] == ["worker:1"]


def _comes_back(topology: Topology, steps: bool, seconds: float, folder: Path) -> None:
    """worker:0 is done after its step, then worker:1 is started again; it is done after some seconds, without one."""
    step = "simulator.step()" if steps else ""
    code = (
        "import os, pathlib, simulator, threading\n"
        "task = os.environ['LOCKSTEP_TASK']\n"
        f"if pathlib.Path(task).exists(): threading.Event().wait({seconds}), os._exit(0)\n"
        f"pathlib.Path(task).touch(); {step}\n"
        "if task != 'worker:0': threading.Event().wait()\n"
    )
    with bare(topology) as cluster, cluster.start_command([sys.executable, "-c", code], cwd=folder) as run:
        # A file announces itself to nobody.
        eventually(lambda: run.tasks["worker:0"].ended and (folder / "worker:1").exists(), "worker:0 to end")
        run.restart("worker:1")
        assert run.join()["worker:1"].incarnation == 1


@pytest.mark.full
@pytest.mark.usefixtures("impatient")
def test_who_may_go_on_alone_is_not_failed(tmp_path: Path) -> None:
    """Workers with parameter servers train one by one, and of a program without steps nobody knows what it waits for;
    the same task in synchronous training is failed.
    """
    for number, (topology, steps) in enumerate([(Topology(worker=2, ps=1), True), (WORKERS, False)]):
        (tmp_path / str(number)).mkdir()
        _comes_back(topology, steps, 1.0, tmp_path / str(number))
    with pytest.raises(RunFailed, match="LeftBehind"):
        _comes_back(WORKERS, True, TIMEOUT, tmp_path)


def _independent(folder: Path) -> int:
    """worker:1 needs no peer; worker:0 is done when the second process of worker:1 has announced a step."""
    agent = own_agent()
    for number in (1, 2, 3):
        agent.step(number)
        if agent.spec.incarnation:
            (folder / "stepped").touch()
            threading.Event().wait(0.2)
    while agent.spec.task == "worker:0" and not (folder / "stepped").exists():
        threading.Event().wait(0.1)
    return int(agent.spec.incarnation)


def test_a_task_that_gets_on_alone_is_left_alone(tmp_path: Path) -> None:
    """Who announces a step needs no peer, so nothing is restarted."""
    result = result_of(bare(WORKERS, faults=plan_of(LATE), restarts=1), _independent, tmp_path)
    assert [task.value for task in result.values()] == [0, 1]


def _deaf(folder: Path, *, stays: bool) -> int:
    """Three steps after SIGTERM as before it; a peer that `stays` waits for the second process of worker:0."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    agent = own_agent()
    for number in (1, 2, 3):
        agent.step(number)
    if agent.spec.incarnation:
        (folder / "back").touch()
    while stays and agent.spec.task == "worker:1" and not (folder / "back").exists():
        threading.Event().wait(0.01)
    return int(agent.spec.incarnation)


def test_a_preempted_task_that_is_done_within_the_grace_is_neither_killed_nor_started_again(tmp_path: Path) -> None:
    """Its process would have ended by itself, and its peers are done as well."""
    plan = plan_of(Preempt("worker:0", step=2, grace="25s", restart="10ms"))
    began = time.monotonic()
    result = result_of(bare(WORKERS, faults=plan, out=tmp_path), _deaf, tmp_path, stays=False)
    assert time.monotonic() - began < TIMEOUT / 2
    assert [(task.value, task.exit, task.stopped) for task in result.values()] == [(0, 0, False)] * 2
    effect, undone = effects(tmp_path)
    assert (effect["ended"], effect["within_grace"], undone) == ({"worker:0": "returned"}, True, {"restarted": {}})


@pytest.mark.full
def test_a_preempted_task_that_returns_while_others_train_comes_back(tmp_path: Path) -> None:
    """It had left, and was not done."""
    plan = plan_of(Preempt("worker:0", step=2, grace="25s", restart="10ms"))
    result = result_of(bare(WORKERS, faults=plan, out=tmp_path), _deaf, tmp_path, stays=True)
    assert [task.value for task in result.values()] == [1, 0]
    assert effects(tmp_path)[1] == {"restarted": {"worker:0": 1}}


def test_all_tasks_that_return_after_one_notice_come_back(tmp_path: Path) -> None:
    """Nobody else can tell whether they were done, and a restart was asked for."""
    plan = plan_of(Preempt(("worker:0", "worker:1"), step=2, grace="25s", restart="10ms"))
    result = result_of(bare(WORKERS, faults=plan, out=tmp_path), _deaf, tmp_path, stays=False)
    assert [task.value for task in result.values()] == [1, 1]


def test_two_preempted_programs_that_end_well_are_done(tmp_path: Path) -> None:
    """Exit code 0 within the grace is the end of the job, also if each was given notice by a fault of its own."""
    code = "import signal, simulator; signal.signal(signal.SIGTERM, signal.SIG_IGN)\nfor _ in 'abc': simulator.step()"
    faults = [Preempt(task, step=2, grace="25s", restart="10ms") for task in WORKERS.tasks]
    result = result_of_command(bare(WORKERS, faults=plan_of(*faults), out=tmp_path), [sys.executable, "-c", code])
    assert [(task.exit, task.incarnation, task.stopped) for task in result.values()] == [(0, 0, False)] * 2
    assert [event["effect"] for event in events(tmp_path, "undone")] == [{"restarted": {}}] * 2
