"""No exception ends a thread of Lockstep's silently: the run fails with it, at once."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from simulator import Cluster, DeadlineExceeded, Link, RunFailed, RunResult, TaskError, TaskResult, Topology
from simulator.agent import main
from simulator.errors import ForkserverEnded
from simulator.faults import DiskFull, Kill, Pause
from simulator.faults.injector.gates import Gatekeeper
from simulator.faults.injector.injector import Injector
from simulator.journal.journal import Journal, read_journal
from simulator.launch.forkserver import Forkserver
from simulator.machines.local.small_disk import call_on_small_disk
from simulator.wire.spec import TaskSpec
from tests.simulator._faults import plan_of, steps
from tests.simulator._wire import eventually

bare = partial(Cluster, preload=(), timeout=float("inf"))


@pytest.fixture
def disk(mounts: None) -> Iterator[Path]:
    """A directory with a short path, for a small file system."""
    with tempfile.TemporaryDirectory(prefix="lockstep-test-", dir="/tmp") as directory:
        yield Path(directory) / "disk"


@pytest.mark.parametrize("when", ["start", pytest.param("later", marks=pytest.mark.full)])
def test_a_full_temporary_directory_is_one_clear_error(when: str, disk: Path) -> None:
    """Without a timeout, and whether the room ends before the tasks start or while they train; nothing is left."""
    found = call_on_small_disk("tests.simulator._full_disk", disk, 4 * 2**20, when, timeout=60)
    assert "No space left on device" in found["text"]
    assert "make room there, or set TMPDIR to a directory that has some" in found["text"]
    assert found["task"] == "lockstep"
    assert "Traceback" not in found["text"]
    assert found["seconds"] < 20
    assert found["left"] == []


def test_a_program_that_ends_where_logs_have_no_room_says_so(disk: Path) -> None:
    """Its exit code alone would hide it."""
    text = call_on_small_disk("tests.simulator._full_out", disk, 4 * 2**20, timeout=60)
    assert "worker:0 failed first: Exit: ended with exit code 1; there is no room left in" in text
    assert "make room there, or name another directory" in text


def test_a_journal_that_cannot_be_written_says_so_and_keeps_whole_lines(tmp_path: Path) -> None:
    """What the last room has taken of an event is taken back; later events are not tried."""
    failures: list[OSError] = []
    journal = Journal(tmp_path / "journal.jsonl", failures.append)
    journal.write("first")
    file = journal._file

    class Full:
        closed = False

        def fileno(self) -> int:
            return file.fileno()

        def write(self, data: bytes) -> int:
            if len(data) > 3:
                return file.write(bytes(data[:3]))
            raise OSError(28, "No space left on device")

        def close(self) -> None:
            self.closed = True

    journal._file = Full()  # type: ignore[assignment]
    journal.write("xy")
    journal.write("last")
    assert [event["event"] for event in read_journal(journal.path)] == ["journal", "first"]
    assert journal.path.read_bytes().endswith(b"\n")
    assert [(error.errno, error.filename) for error in failures] == [(28, str(journal.path))]
    file.close()


def _raise(*_: Any) -> Any:
    raise ArithmeticError("of the thread")


@pytest.mark.parametrize(("owner", "method"), [(Gatekeeper, "_visit"), (Injector, "_stuck")])
def test_an_exception_in_a_thread_of_faults_fails_the_run(
    owner: type, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that open gates and that heal: without them tasks would stand for ever."""
    monkeypatch.setattr(owner, method, _raise)
    plan = plan_of(Pause("worker:0", step=2, duration="1ms"), heal="100ms")
    with bare(Topology(worker=1), faults=plan) as cluster, pytest.raises(RunFailed, match="of the thread") as caught:
        cluster.run(steps, 100_000, 0.01)
    assert (caught.value.root_cause.task, caught.value.root_cause.kind) == ("lockstep", "ArithmeticError")
    assert "in _raise" in caught.value.root_cause.traceback


def test_a_fault_that_meets_an_error_ends_the_run_at_once() -> None:
    """Not only when the job is done: its fault is named."""
    plan = plan_of(DiskFull("worker:0", directory="/nowhere", step=2))
    with bare(Topology(worker=1), faults=plan) as cluster, pytest.raises(RunFailed, match="NotFound") as caught:
        cluster.run(steps, 100_000, 0.01)
    assert caught.value.root_cause.kind == "FaultWithoutEffect"


def test_an_exception_of_who_watches_links_fails_the_run() -> None:
    """`on_fired` calls in the thread that hears the relay, without which every request would wait in vain."""
    link = Link(src="worker:0", dst="worker:1", delay="1ms", after_connections=1)
    with bare(Topology(worker=2), links=[link]) as cluster:
        cluster.set_gate("worker:0", "step:0")
        with cluster.start(_connects) as run:
            assert run.wait_gate("worker:0", "step:0", 20)
            run.network.on_fired(_raise)
            run.open_gate("worker:0")
            with pytest.raises(RunFailed, match="the relay could not be heard any more: ArithmeticError: of the"):
                run.join()


def _connects() -> None:
    import json

    from tests.simulator._faults import connect

    config = json.loads(os.environ["TF_CONFIG"])
    if config["task"]["index"] == 0:
        connect(config["cluster"]["worker"][1])
    threading.Event().wait()


def _waits(spec: TaskSpec) -> None:
    threading.Event().wait()


def test_the_timeout_bounds_the_start_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that does not come up, because it is stopped for example, is not waited for any longer than a run."""
    monkeypatch.setattr(main, "main", _waits)
    with (
        bare(Topology(worker=1), timeout=0.5) as cluster,
        pytest.raises(DeadlineExceeded, match=r"gave up after 0\.5 s waiting for worker:0 to start"),
    ):
        cluster.run(len, "x")


# Programs, of whose tasks the plan, or Lockstep, asks the end: that is the cause of nothing.
WAITS = ["sleep", "60"]


def test_the_killed_relay_is_the_cause_and_no_task() -> None:
    """The tasks are ended by Lockstep, since nobody keeps the network; a plan that there is not has not done it."""
    with bare(Topology(worker=2), relay=True) as cluster, cluster.start_command(WAITS) as run:
        os.kill(run.network.pid, signal.SIGKILL)
        with pytest.raises(RunFailed) as caught:
            run.join()
    assert [(cause.task, cause.kind) for cause in caught.value.causes] == [("network", "RelayEnded")]


@pytest.mark.parametrize(("later", "first"), [(0.02, "network"), (5.0, "worker:0")])
def test_what_tasks_lose_with_the_relay_is_heard_before_its_end(later: float, first: str) -> None:
    """They end at once, and it is the cause; not so what ends long after them."""
    lost = TaskError("worker:0", "Exit", "ended with exit code 9", at=100.0)
    relay = TaskError("network", "RelayEnded", "the relay ended during the run", at=100.0 + later)
    failure = RunFailed((lost, relay), RunResult(tasks={}, seconds=1.0, directory=Path()))
    assert failure.root_cause.task == first


def test_a_file_that_cannot_be_written_after_a_crash_is_no_cause_of_it() -> None:
    """The end of the task was to be written there; when that failed is known exactly."""
    crash = TaskError("worker:0", "Signal", "killed by SIGSEGV", at=100.0)
    journal = TaskError("lockstep", "OSError", "the journal cannot be written", at=100.01)
    failure = RunFailed((crash, journal), RunResult(tasks={}, seconds=1.0, directory=Path()))
    assert failure.root_cause.task == "worker:0"


@pytest.mark.parametrize(("exit_code", "first"), [(-signal.SIGKILL, "worker:0"), (-signal.SIGABRT, "worker:1")])
def test_a_kill_is_no_consequence_of_what_a_peer_lost_by_it(exit_code: int, first: str) -> None:
    """Its end may be seen a moment later; that of a crash may follow from the peer's."""
    peer = TaskError("worker:1", "Exit", "ended with exit code 9", at=100.0)
    killed = TaskError("worker:0", "Signal", "killed", at=100.01)
    tasks = {
        name: TaskResult(name, None, None, code, None, "", 0, 1, stopped=False)
        for name, code in (("worker:0", int(exit_code)), ("worker:1", 9))
    }
    failure = RunFailed((peer, killed), RunResult(tasks=tasks, seconds=1.0, directory=Path()))
    assert failure.root_cause.task == first


def test_what_lockstep_cannot_do_any_more_is_the_cause() -> None:
    """As where no more files may be open: it comes first, and alone."""
    with bare(Topology(worker=2)) as cluster, cluster.start_command(WAITS) as run:
        run.breakdown.report("an event could not be taken in", OSError(24, "Too many open files"))
        with pytest.raises(RunFailed) as caught:
            run.join()
    assert [(cause.task, cause.kind) for cause in caught.value.causes] == [("lockstep", "OSError")]


def test_a_plan_that_ends_every_task_is_told_and_when() -> None:
    """The control: then nobody can finish the job, which is known at the end and not in the year of the clock."""
    plan = plan_of(Kill("worker:0", step=1))
    code = "import simulator, threading; simulator.step(); threading.Event().wait()"
    with bare(Topology(worker=1), faults=plan) as cluster, pytest.raises(RunFailed) as caught:
        cluster.run_command([sys.executable, "-c", code])
    (cause,) = caught.value.causes
    assert cause.kind == "NotFinished"
    assert time.monotonic() - 30 < cause.at <= time.monotonic()


def test_a_forkserver_that_is_killed_while_it_starts_a_task_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one sentence, whether the connection to it or its answer breaks off."""
    for error in (EOFError("no number"), ConnectionResetError("by peer")):

        def broken(server: Forkserver, *_: Any, error: Exception = error) -> Any:
            server._ensure_running()
            # The number of the one before, which is killed, may still stand there.
            eventually(lambda: server.pid is not None and psutil.pid_exists(server.pid), "a forkserver")
            assert server.pid is not None
            os.kill(server.pid, signal.SIGKILL)
            raise error

        monkeypatch.setattr(Forkserver, "_popen", broken)
        with (
            bare(Topology(worker=1)) as cluster,
            pytest.raises(ForkserverEnded, match="killed while it started worker:0"),
        ):
            cluster.run_command(["true"])


def test_a_killed_forkserver_is_the_cause_and_its_tasks_have_no_exit_code() -> None:
    """They die with it, and nobody is left who could say how they ended."""
    # A forkserver of its own, since others are used by later tests too.
    preload = ("simulator.units",)
    with Cluster(Topology(worker=2), preload=preload, timeout=float("inf")) as cluster:
        cluster.set_gate("worker:0", "step:0")
        with cluster.start(len, "") as run:
            assert run.wait_gate("worker:0", "step:0")
            pid = run.tasks["worker:0"].pid
            assert pid is not None
            psutil.Process(pid).parent().kill()  # type: ignore[union-attr]
            with pytest.raises(RunFailed) as caught:
                run.join()
    (cause,) = caught.value.causes
    assert (cause.task, cause.kind) == ("lockstep", "ForkserverEnded")
    assert [task.exit for task in caught.value.result.values()] == [None, None]
    with Cluster(Topology(worker=1), preload=preload) as cluster:  # there is another one by now
        assert cluster.run(len, "")["worker:0"].value == 0
