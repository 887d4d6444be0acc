"""When a process ended is known from where that was seen, however late the run hears of it."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from simulator import Cluster, RunFailed, Topology
from simulator.journal import read_journal
from simulator.launch import forkserver
from tests.simulator._wire import eventually

# FD_SETSIZE of Linux.
_SELECT_MAX = 1024


def _follows(directory: str) -> None:
    """Worker 1 is killed; worker 0 sees that and fails of it, as a peer does."""
    mine = Path(directory)
    if os.environ["LOCKSTEP_TASK"] == "worker:1":
        (mine / "pid.new").write_text(str(os.getpid()))
        (mine / "pid.new").rename(mine / "pid")
        os.kill(os.getpid(), signal.SIGKILL)
    eventually((mine / "pid").exists, "worker 1")
    # Not a zombie either: then its end has been seen where it was forked.
    eventually(lambda: not psutil.pid_exists(int((mine / "pid").read_text())), "the end of worker 1")
    (mine / "seen").touch()
    raise RuntimeError("its peer has gone")


def test_an_exit_that_is_heard_late_is_not_taken_for_a_late_one(tmp_path: Path) -> None:
    """The thread that hears of it is busy meanwhile; the error of the peer, which has its own time, came after."""
    with (
        Cluster(Topology(worker=2), preload=(), timeout=30, out=tmp_path / "out") as cluster,
        cluster.start(_follows, str(tmp_path)) as run,
    ):
        with run.changed:
            eventually((tmp_path / "seen").exists, "worker 0 to fail")
            seen = time.monotonic()
            # Where it was forked, a process is gone a moment before its end has its time.
            eventually(lambda: time.monotonic() > seen + 0.1, "that moment to pass")
            heard = time.monotonic()
        with pytest.raises(RunFailed) as caught:
            run.join()
    assert (caught.value.root_cause.task, caught.value.root_cause.kind) == ("worker:1", "Signal")
    assert caught.value.root_cause.at < heard
    exits = {
        event["task"]: event["at"]
        for event in read_journal(tmp_path / "out" / "0" / "journal.jsonl")
        if event["event"] == "exit"
    }
    assert exits["worker:1"] < heard


def test_a_process_with_many_open_files_learns_how_others_ended(many_open_files: Callable[[], None]) -> None:
    """Also where the number of the file that says so is beyond what `select` knows."""
    for _ in range(10):  # what earlier tests have left may be closed meanwhile, and its number is taken then
        many_open_files()
        process = forkserver(()).start(os._exit, (7,), "ends")
        process.end(20)
        assert process.exit_code() == 7
        if process.sentinel >= _SELECT_MAX:
            return
    pytest.fail(f"no number was beyond {_SELECT_MAX}")


@pytest.fixture
def many_open_files() -> Iterator[Callable[[], None]]:
    """Has this process open as many files as `select` can wait for; it may open more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2 * _SELECT_MAX:
        pytest.skip(f"a process may open {hard} files here, and needs {2 * _SELECT_MAX}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * _SELECT_MAX if 0 <= soft < 2 * _SELECT_MAX else soft, hard))
    with contextlib.ExitStack() as stack:

        def fill() -> None:
            number = 0
            while number < _SELECT_MAX:
                number = os.open(os.devnull, os.O_RDONLY)
                stack.callback(os.close, number)

        yield fill
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_two_threads_may_ask_at_once_how_a_process_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both see that its end can be read; only one reads it, and the other does not take what is left for the end."""
    process = forkserver(()).start(os._exit, (7,), "ends")
    selected = select.select([process.sentinel], [], [], 20)
    assert selected[0]
    both = threading.Barrier(2, timeout=20)

    def at_once(*args: object) -> object:
        both.wait()
        return selected

    monkeypatch.setattr("simulator.wire.forking.connection.wait", at_once)
    with ThreadPoolExecutor(2) as threads:
        codes = [future.result(30) for future in [threads.submit(process.exit_code) for _ in range(2)]]
    assert codes == [7, 7]
    assert process.ended_at is not None
