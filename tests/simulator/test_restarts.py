"""Restarts: new incarnations of tasks, asked for or by policy, and what is remembered of the old ones."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from simulator import Cluster, FaultPlan, LockstepError, RunFailed, Topology, UsageError
from simulator.faults import Kill
from simulator.journal.journal import Journal, read_journal
from simulator.kernel import group_members
from simulator.machines.local.machine import LocalMachine
from simulator.run.events import Events
from simulator.run.population import Population
from simulator.run.restarts import RestartPolicy, forsaken
from simulator.run.task import Task
from simulator.wire import control
from simulator.wire.spec import TaskSpec
from tests._ended import has_ended
from tests.simulator._faults import own_agent
from tests.simulator._only_run import bare, failure_of, result_of
from tests.simulator._wire import eventually


def _returns_from(incarnation: int, task: str = "worker:1") -> dict[str, Any]:
    """Fail in `task` until this incarnation; else say who this is."""
    agent = own_agent()
    if agent.spec.task == task and agent.spec.incarnation < incarnation:
        os._exit(7)
    return {"pid": os.getpid(), "config": os.environ["TF_CONFIG"], "incarnation": agent.spec.incarnation}


def _waits_in_first() -> int:
    """Announce a step; the first incarnation of worker:1 then waits for ever."""
    agent = own_agent()
    agent.step(1)
    if agent.spec.task == "worker:1" and agent.spec.incarnation == 0:
        threading.Event().wait()
    return int(agent.spec.incarnation)


def test_a_restarted_task_is_a_new_process_on_its_old_port() -> None:
    """A task that is killed by `restart` comes back as incarnation 1 with the same TF_CONFIG; its peer stays."""
    with bare(Topology(worker=2)) as cluster, cluster.start(_waits_in_first) as run:
        run.wait_step("worker:1", 1)
        old = cluster.task("worker:1")
        new = run.restart("worker:1")
        assert old.ended
        assert new.pid != old.pid
        assert cluster.task("worker:1") is new
        result = run.join()
    assert result["worker:1"].value == 1
    first, last = result["worker:1"].incarnations
    assert (first.number, first.exit, first.signal, first.stopped) == (0, -9, "SIGKILL", True)
    assert (first.steps, first.error) == (1, None)
    assert (last.number, last.exit, last.stopped) == (1, 0, False)
    assert [past.number for past in result["worker:0"].incarnations] == [0]


def test_a_planned_death_is_no_failure_and_is_waited_for() -> None:
    """Between `announce_end(comes_back=True)` and `restart` the run neither fails nor ends."""
    with bare(Topology(worker=2)) as cluster, cluster.start(_waits_in_first) as run:
        run.wait_step("worker:1", 1)
        task = cluster.task("worker:1")
        task.announce_end(comes_back=True)
        task.kill()
        results: list[Any] = []
        joining = threading.Thread(target=lambda: results.append(run.join()))
        joining.start()
        run.wait(lambda: task.ended, "the task to end", 10)
        assert not task.finished
        run.restart("worker:1")
        joining.join(20)
    assert results[0]["worker:1"].value == 1


def test_an_unplanned_death_still_fails_the_run() -> None:
    """The same kill without an announcement is a failure."""
    with bare(Topology(worker=2)) as cluster, cluster.start(_waits_in_first) as run:
        run.wait_step("worker:1", 1)
        cluster.task("worker:1").kill()
        with pytest.raises(RunFailed, match="worker:1 failed first: Signal: killed by SIGKILL"):
            run.join()


def test_a_stopped_process_and_its_children_are_dead_before_the_next_incarnation_starts(tmp_path: Path) -> None:
    """SIGKILL reaches a SIGSTOPped task, and a child that ignores SIGTERM."""

    def body() -> int:
        agent = own_agent()
        if agent.spec.incarnation:
            return len(group_members(int((tmp_path / "pid").read_text())))
        code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"
        child = subprocess.Popen([sys.executable, "-c", code])
        (tmp_path / "child").write_text(str(child.pid))
        (tmp_path / "pid").write_text(str(os.getpid()))
        agent.step(1)
        threading.Event().wait()
        raise AssertionError

    with bare(Topology(worker=1)) as cluster, cluster.start(body) as run:
        run.wait_step("worker:0", 1)
        assert len(group_members(int((tmp_path / "pid").read_text()))) == 2
        cluster.task("worker:0").send_signal(signal.SIGSTOP)
        run.restart("worker:0")
        assert run.join()["worker:0"].value == 0
    child = int((tmp_path / "child").read_text())
    assert has_ended(child)


def test_a_message_of_an_older_incarnation_is_ignored(tmp_path: Path) -> None:
    """A process that greets as incarnation 0 after a restart moves no step and is in the journal as fenced."""
    with bare(Topology(worker=2), out=tmp_path) as cluster, cluster.start(_waits_in_first) as run:
        run.wait_step("worker:1", 1)
        new = run.restart("worker:1")
        with socket.socket(socket.AF_UNIX) as zombie:
            zombie.connect(str(run.directory / "control.sock"))
            zombie.sendall(control.encode(control.Hello(task="worker:1", incarnation=0, pid=1)))
            zombie.sendall(control.encode(control.StepDone(number=99, at=0.0)))
            run.wait_step("worker:1", 1)
            result = run.join()
    assert new.steps == 1
    assert result["worker:1"].steps == 1
    events = list(read_journal(tmp_path / "0" / "journal.jsonl"))
    assert [event["incarnation"] for event in events if event["event"] == "fenced"] == [0]
    assert not any(event.get("number") == 99 for event in events)


def test_a_gate_that_was_reached_is_not_set_again() -> None:
    """The new incarnation passes the gate at which the old one was killed, and stops at the next one."""

    def body() -> None:
        for number in (1, 2, 3):
            own_agent().step(number)

    with bare(Topology(worker=1)) as cluster:
        for gate in ("step:1", "step:3"):
            cluster.set_gate("worker:0", gate)
        with cluster.start(body) as run:
            assert run.wait_gate("worker:0", "step:1")
            run.restart("worker:0")
            assert run.wait_gate("worker:0", "step:3")
            run.open_gate("worker:0")
            assert run.join()["worker:0"].incarnation == 1


def test_a_late_restart_of_a_task_that_is_back_does_nothing() -> None:
    """`after=0` finds incarnation 1 and leaves it alone."""
    with bare(Topology(worker=2)) as cluster, cluster.start(_waits_in_first) as run:
        new = run.restart("worker:1", after=0)
        assert run.restart("worker:1", after=0) is new
        assert run.join()["worker:1"].incarnation == 1


def _raises_once_and_takes_its_time() -> int:
    """The first incarnation fails, and is then busy for a while with its own end."""
    agent = own_agent()
    if agent.spec.incarnation == 0:
        sys.stdout.flush = lambda: threading.Event().wait(0.3)  # type: ignore[method-assign]
        raise ValueError("once")
    return int(agent.spec.incarnation)


@pytest.mark.parametrize("policy", ["task", pytest.param("job", marks=pytest.mark.full)])
def test_who_has_raised_ends_by_itself_before_it_is_replaced(policy: str) -> None:
    """The policy does not kill a process that is about to exit: its exit code says how it ended."""
    with bare(Topology(worker=1), restarts=1, restart_policy=policy) as cluster:
        first, _ = cluster.run(_raises_once_and_takes_its_time)["worker:0"].incarnations
    assert (first.exit, first.signal, first.error.kind if first.error else None) == (1, None, "ValueError")


def test_policy_job_starts_every_task_again(tmp_path: Path) -> None:
    """Without ps tasks one failure restarts all tasks, and the journal says why."""
    result = result_of(bare(Topology(worker=2), restarts=2, out=tmp_path), _returns_from, 2)
    assert [task.value["incarnation"] for task in result.values()] == [2, 2]
    assert [past.exit for past in result["worker:1"].incarnations] == [7, 7, 0]
    assert all(past.stopped for past in result["worker:0"].incarnations[:-1])
    restarts = [event for event in read_journal(tmp_path / "0" / "journal.jsonl") if event["event"] == "restart"]
    assert [(event["task"], event["incarnation"]) for event in restarts] == [
        ("worker:0", 1),
        ("worker:1", 1),
        ("worker:0", 2),
        ("worker:1", 2),
    ]
    assert restarts[-1]["reason"] == "policy job, 2 of 2"


def _announces_from(incarnation: int, *failing: str) -> int:
    """Announce step 1, but fail until this incarnation in these tasks (in worker:1 if none is named)."""
    agent = own_agent()
    if agent.spec.task in (failing or ("worker:1",)) and agent.spec.incarnation < incarnation:
        os._exit(7)
    agent.step(1)
    return int(agent.spec.incarnation)


@pytest.mark.parametrize("policy", ["task", pytest.param("job", marks=pytest.mark.full)])
def test_a_failure_is_answered_while_the_caller_waits_for_a_gate(policy: str) -> None:
    """The policy acts from the start of the run: incarnation 2 comes to its gate although nobody has called `join`."""
    with bare(Topology(worker=2), restarts=2, restart_policy=policy) as cluster:
        cluster.set_gate("worker:1", "step:1")
        with cluster.start(_announces_from, 2) as run:
            assert run.wait_gate("worker:1", "step:1")
            assert cluster.task("worker:1").incarnation == 2
            run.open_gate("worker:1")
            result = run.join()
    assert [past.exit for past in result["worker:1"].incarnations] == [7, 7, 0]


def test_a_failure_is_answered_while_nobody_waits() -> None:
    """The last incarnation returns while the caller does nothing of the run's; `join` then finds the job done."""
    with bare(Topology(worker=1), restarts=1) as cluster, cluster.start(_announces_from, 1, "worker:0") as run:
        run.wait(lambda: run.tasks["worker:0"].result is not None, "worker:0 to return", 10)
        assert run.join()["worker:0"].value == 1


def test_who_waits_for_a_step_goes_on_waiting_through_a_restart() -> None:
    """`wait_step` returns at the step of the next incarnation, not at the failure of the first."""
    with bare(Topology(worker=2), restarts=1) as cluster, cluster.start(_announces_from, 1) as run:
        run.wait_step("worker:1", 1)
        assert (cluster.task("worker:1").incarnation, cluster.task("worker:1").steps) == (1, 1)
        run.join()


@pytest.mark.parametrize(("restarts", "failing"), [(1, ["worker:1"]), (1, ["worker:0", "worker:1"])], ids=str)
def test_who_waits_for_a_doomed_job_is_told(restarts: int, failing: list[str]) -> None:
    """When no restart is left, or fewer than tasks have failed, waiting for a gate ends long before its deadline."""
    with bare(Topology(worker=3), restarts=restarts, restart_policy="task") as cluster:
        cluster.set_gate("worker:1", "step:1")
        with cluster.start(_announces_from, 99, *failing) as run:
            assert not run.wait_gate("worker:1", "step:1", timeout=20)
            with pytest.raises(RunFailed, match="ended with exit code 7"):
                run.join()


def test_a_power_cut_is_not_answered() -> None:
    """After `kill` the policy starts nothing, and what tasks said of each other's end is no failure."""
    with bare(Topology(worker=2), restarts=5) as cluster, cluster.start(_waits_in_first) as run:
        run.wait_step("worker:1", 1)
        run.kill()
        assert not any(task.alive for task in run.tasks.values())
        result = run.join()
    assert [(task.incarnation, task.exit, task.error) for task in result.values()] == [(0, -9, None)] * 2


def test_a_policy_that_cannot_start_a_task_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in the thread that restarts ends every wait at once, and `join` raises it."""
    launch = LocalMachine.launch

    def fails(self: LocalMachine, specs: Sequence[TaskSpec]) -> None:
        if specs[0].incarnation:
            raise OSError("no more processes")
        launch(self, specs)

    monkeypatch.setattr(LocalMachine, "launch", fails)
    with bare(Topology(worker=2), restarts=3) as cluster, cluster.start(_announces_from, 1) as run:
        run.wait_step("worker:1", 1, timeout=20)
        with pytest.raises(LockstepError, match="what failed cannot be started again: no more processes"):
            run.join()


def test_a_client_is_told_to_begin_when_a_later_incarnation_of_a_server_listens(tmp_path: Path) -> None:
    """A server that ends before it listens keeps the chief waiting; its successor does not. Nobody is told twice."""
    ours, theirs = socket.socketpair()
    chief = Task("chief:0", is_client=True, log_path=tmp_path, stacks_path=tmp_path, connection=ours)
    dead = Task("ps:0", is_client=False, log_path=tmp_path, stacks_path=tmp_path, ended=True)
    back = Task("ps:0", is_client=False, log_path=tmp_path, stacks_path=tmp_path, connection=ours, ready=True)
    tasks = {"chief:0": chief, "ps:0": dead}
    with contextlib.ExitStack() as stack:
        journal = stack.enter_context(contextlib.closing(Journal(tmp_path / "journal.jsonl")))
        events = Events(tasks, journal, lambda _: None)
        stack.callback(ours.close)
        stack.callback(theirs.close)
        population = Population(tasks, None, events, journal, dict, {}, {}, b"call", 1.0)  # type: ignore[arg-type]
        theirs.setblocking(False)
        population.proceed([chief, dead])
        with pytest.raises(BlockingIOError):
            theirs.recv(1)
        tasks["ps:0"] = back
        population.proceed([back])
        population.proceed([back])
        assert theirs.recv(1000) == control.encode(control.Proceed(call=b"call"))


def test_policy_task_starts_the_failed_task_alone() -> None:
    """A peer keeps its process."""
    result = result_of(bare(Topology(worker=2), restarts=1, restart_policy="task"), _returns_from, 1)
    assert [task.value["incarnation"] for task in result.values()] == [0, 1]
    config = [json.loads(task.value["config"])["cluster"] for task in result.values()]
    assert config[0] == config[1]


def test_an_evaluator_that_fails_restarts_alone() -> None:
    """Under policy `job` the failure of an evaluator leaves training alone."""
    result = result_of(bare(Topology(worker=2, evaluator=1), restarts=1), _returns_from, 1, "evaluator:0")
    assert {name: task.value["incarnation"] for name, task in result.items()} == {
        "worker:0": 0,
        "worker:1": 0,
        "evaluator:0": 1,
    }


@pytest.mark.parametrize("policy", ["task", pytest.param("job", marks=pytest.mark.full)])
def test_a_crash_loop_ends_loudly(policy: str) -> None:
    """The failure after the last restart fails the run, which tells what happened before."""
    failure = failure_of(bare(Topology(worker=2), restarts=2, restart_policy=policy), _returns_from, 99)
    assert [past.exit for past in failure.result["worker:1"].incarnations] == [7, 7, 7]
    assert failure.root_cause.task == "worker:1"
    assert "worker:1 had been restarted 2 times" in str(failure)


def test_an_expected_failure_counts_although_a_restart_made_it_good() -> None:
    """`expect` looks at every incarnation."""
    with bare(Topology(worker=2), restarts=1) as cluster:
        cluster.expect("worker:1", exit=7)
        assert cluster.run(_returns_from, 1)["worker:1"].incarnation == 1


def test_default_policies() -> None:
    """With ps tasks single tasks are restarted, otherwise the whole job, and nothing without a count."""
    ps = Topology(chief=1, worker=1, ps=1)
    assert RestartPolicy.of(1, None, ps).kind == "task"
    assert RestartPolicy.of(1, None, Topology(worker=2)).kind == "job"
    assert RestartPolicy.of(0, None, ps) == RestartPolicy("none", 0)


@pytest.mark.parametrize(
    ("restarts", "policy", "text"),
    [(-1, None, "-1"), (1, "later", "none, task, job"), (0, "job", "restarts=N")],
)
def test_a_policy_without_sense_is_a_usage_error(restarts: int, policy: str | None, text: str) -> None:
    """The message names what is accepted."""
    with pytest.raises(UsageError, match=text):
        Cluster(Topology(worker=1), restarts=restarts, restart_policy=policy)


def test_servers_restart_as_servers() -> None:
    """A TensorFlow worker and a ps that are killed listen again, and the chief can use them."""

    def body() -> list[float]:
        import tensorflow as tf

        agent = own_agent()
        agent.step(1)
        cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        tf.config.experimental_connect_to_cluster(cluster, job_name="chief")
        values = []
        for job in ("worker", "ps"):
            with tf.device(f"/job:{job}/task:0"):
                values.append(float(tf.constant(1.5) * 2))
        return values

    with Cluster(Topology(chief=1, worker=1, ps=1), timeout=60) as cluster:
        cluster.set_gate("chief:0", "step:1")
        with cluster.start(body) as run:
            assert run.wait_gate("chief:0", "step:1")
            for task in ("worker:0", "ps:0"):
                assert run.restart(task).ready
            run.open_gate("chief:0")
            result = run.join()
    assert result["chief:0"].value == [3.0, 3.0]
    assert [result[name].incarnation for name in ("chief:0", "worker:0", "ps:0")] == [0, 1, 1]


@pytest.mark.full
def test_a_planned_restart_and_the_policy_do_not_fight(tmp_path: Path) -> None:
    """The job restarts because of a survivor; the restart that the plan has for later then finds its task alive."""
    victim = tmp_path / "pid of worker:1"

    def body() -> int:
        agent = own_agent()
        if agent.spec.incarnation == 0 and agent.spec.task == "worker:1":
            victim.write_text(str(os.getpid()))
            eventually((tmp_path / "worker:0 waits").exists, "worker:0 to wait")
        agent.step(1)
        if agent.spec.incarnation == 0:
            # The peer of a killed worker notices, as collectives do.
            eventually(lambda: victim.exists() and victim.read_text() != "", "worker:1 to be there")
            (tmp_path / "worker:0 waits").touch()
            eventually(lambda: has_ended(int(victim.read_text())), "worker:1 to be killed")
            os._exit(7)
        threading.Event().wait(2.5)  # longer than the plan waits
        return int(agent.spec.incarnation)

    plan = FaultPlan(faults=(Kill("worker:1", step=1, restart="2s"),))
    result = result_of(bare(Topology(worker=2), restarts=1, faults=plan), body)
    assert [task.value for task in result.values()] == [1, 1]


@dataclasses.dataclass
class _Places:
    """What a policy asks of a placement: `m1`, with the second worker, is lost or not, and others are left or not."""

    lost: tuple[str, ...]
    left: tuple[str, ...] = ("m0",)

    def tasks(self, machine: str) -> tuple[str, ...]:
        """Those that ran on `m1`."""
        assert machine == "m1"
        return ("worker:1", "ps:0")


@pytest.mark.parametrize("kind", ["task", "job"])
def test_a_lost_machine_costs_one_restart_of_all_tasks(kind: str) -> None:
    """Under either policy; without a machine that is left, or without a policy, there is nothing to be done."""
    failed = SimpleNamespace(error=LookupError(), job="worker")
    tasks: Any = {"chief:0": SimpleNamespace(error=None, job="chief"), "worker:1": failed, "ps:0": failed}
    lost: Any = _Places(("m1",))
    there: Any = _Places(())
    policy = RestartPolicy(kind, 1)
    assert policy.names(tasks, lost) == list(tasks)
    assert policy.allows(tasks, lost, 0)
    assert not policy.allows(tasks, lost, 1)
    assert not forsaken(tasks, lost, policy)
    nowhere: Any = _Places(("m1",), left=())
    assert forsaken(tasks, nowhere, policy)
    assert forsaken(tasks, lost, RestartPolicy())
    # Two tasks that fail by themselves are two restarts, or one of the whole job.
    assert policy.names(tasks, there) == (["worker:1", "ps:0"] if kind == "task" else list(tasks))
    assert policy.allows(tasks, there, 0) is (kind == "job")
    assert not forsaken(tasks, there, policy)
