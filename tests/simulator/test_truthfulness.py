"""A green run means something: each way in which other harnesses pass for the wrong reason fails here.

The numbers are those of the list in docs/truthfulness.md.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from simulator import RunFailed, Topology
from simulator.agent import main
from tests._ended import has_ended
from tests.simulator._only_run import bare, failure_of
from tests.simulator._wire import eventually


def _index() -> int:
    index: int = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    return index


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_1_a_task_killed_by_a_signal_fails_the_run(number: signal.Signals) -> None:
    """A negative exit code is a failure that names the signal."""

    def body() -> None:
        if _index() == 1:
            os.kill(os.getpid(), number)

    failure = failure_of(bare(Topology(worker=2)), body)
    assert failure.root_cause.task == "worker:1"
    assert number.name in failure.root_cause.message
    assert failure.result["worker:1"].exit == -number
    assert failure.result["worker:1"].signal == number.name


def test_1_any_exit_code_but_zero_fails_the_run() -> None:
    """Leaving with a code of its own is a failure."""
    failure = failure_of(bare(Topology(worker=1)), lambda: os._exit(7))
    assert (failure.root_cause.kind, failure.result["worker:0"].exit) == ("Exit", 7)


@pytest.mark.parametrize("leave", [lambda: os._exit(0), lambda: sys.exit(0)])
def test_2_a_client_without_a_result_fails_the_run(leave: Callable[[], None]) -> None:
    """Leaving with exit code 0 in the middle of the function is not success."""
    failure = failure_of(bare(Topology(worker=2)), leave)
    assert failure.root_cause.kind in ("NoResult", "SystemExit")


def test_3_a_child_that_dies_before_the_body_fails_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task whose function cannot be loaded never starts its body, and fails."""
    (tmp_path / "only_here.py").write_text("def body(): return 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import only_here  # type: ignore[import-not-found]

    body = only_here.body
    with bare(Topology(worker=1)) as cluster, cluster.start(body) as run:
        run.join()
        (tmp_path / "only_here.py").write_text("raise RuntimeError('broken module')\n")
    failure = failure_of(bare(Topology(worker=1)), body)
    assert "broken module" in str(failure)


def test_3_a_child_killed_before_it_reaches_the_agent_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ends before its first message is reported as never started."""
    monkeypatch.setattr(main, "main", _die_at_once)
    failure = failure_of(bare(Topology(worker=1)), os.getpid)
    assert failure.root_cause.kind == "NeverStarted"


def _die_at_once(spec: object) -> None:
    os._exit(0)


def test_4_an_exception_in_a_helper_thread_fails_the_run() -> None:
    """Python only prints it; the run fails with the thread's own traceback."""

    def body() -> None:
        def helper() -> None:
            raise LookupError("in the helper")

        thread = threading.Thread(target=helper, name="loader")
        thread.start()
        thread.join()

    failure = failure_of(bare(Topology(worker=1)), body)
    assert failure.root_cause.kind == "LookupError"
    assert "'loader'" in failure.root_cause.message
    assert "in helper" in failure.root_cause.traceback


def test_10_a_hang_fails_with_the_stacks_of_every_task_and_the_session_goes_on() -> None:
    """The stack shows where each task hangs, native calls included; the next run works."""

    def wait_for_godot() -> None:
        threading.Event().wait()

    def body() -> None:
        import ctypes

        # The second task hangs in native code without releasing the GIL, so only a C-level handler can show its stack.
        ctypes.PyDLL(None).pause() if _index() else wait_for_godot()

    with bare(Topology(worker=2), timeout=1.5) as cluster:
        with pytest.raises(RunFailed) as caught:
            cluster.run(body)
        assert {cause.kind for cause in caught.value.causes} == {"Hang"}
        assert "in wait_for_godot" in caught.value.stacks["worker:0"]
        assert "in body" in caught.value.stacks["worker:1"]
        assert cluster.run(os.getpid)["worker:1"].exit == 0


def test_10_a_hang_takes_its_children_with_it(tmp_path: Path) -> None:
    """The whole process group is killed, not only the task."""

    def body(note: str) -> None:
        child = subprocess.Popen(["sleep", "1000"])
        Path(note).write_text(str(child.pid))
        child.wait()

    with bare(Topology(worker=1), timeout=2) as cluster, pytest.raises(RunFailed):
        cluster.run(body, str(tmp_path / "pid"))
    child = int((tmp_path / "pid").read_text())
    eventually(partial(has_ended, child), f"process {child} to be gone")


def test_13_the_first_failure_is_named_first() -> None:
    """The root cause is the earliest failure by the clock, with its own traceback; its peers get one line each."""

    def body(gate: str) -> None:
        if _index() == 2:
            Path(gate).touch()
            raise ValueError("the cause")
        while not Path(gate).exists():
            threading.Event().wait(0.01)
        threading.Event().wait(0.3)
        raise ConnectionError("derived")

    failure = failure_of(bare(Topology(worker=3)), body, f"/tmp/lockstep-gate-{os.getpid()}")
    Path(f"/tmp/lockstep-gate-{os.getpid()}").unlink()
    text = str(failure)
    assert text.startswith("worker:2 failed first: ValueError: the cause")
    assert text.index('raise ValueError("the cause")') < text.index("worker:0: ConnectionError: derived")
    assert text.count("Traceback") == 1


_PARENT = """
import os, pathlib, sys, threading
from simulator import Cluster, Topology
def body(folder):
    import subprocess
    child = subprocess.Popen(["sleep", "1000"])
    pathlib.Path(folder, str(os.getpid())).write_text(str(child.pid))
    threading.Event().wait()
with Cluster(Topology(worker=2), preload=(), timeout=60) as cluster:
    cluster.run(body, sys.argv[1])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_14_nothing_outlives_the_parent(number: signal.Signals, tmp_path: Path, short_temporary: Path) -> None:
    """Ctrl-C, SIGTERM and SIGKILL of the parent leave no task, no child of a task, and no directory."""
    environment = {**os.environ, "TMPDIR": str(short_temporary)}
    command = [sys.executable, "-c", _PARENT, str(tmp_path)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True) as parent:
        try:
            eventually(
                lambda: len([note for note in tmp_path.iterdir() if note.read_text()]) == 2, "both tasks to start"
            )
            family = [int(text) for note in tmp_path.iterdir() for text in (note.name, note.read_text())]
            assert any(short_temporary.iterdir())
            os.kill(parent.pid, number)
            parent.wait(timeout=20)
        finally:
            parent.kill()
    for pid in family:
        eventually(partial(has_ended, pid), f"process {pid} to be gone")
    eventually(lambda: not any(short_temporary.iterdir()), f"{list(short_temporary.iterdir())} to be removed")


def test_14_a_finished_run_leaves_no_process_and_no_file(
    short_temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also children that a task started and forgot are gone when the run returns."""
    monkeypatch.setattr("tempfile.tempdir", str(short_temporary))

    def body() -> int:
        return subprocess.Popen(["sleep", "1000"]).pid

    with bare(Topology(worker=1)) as cluster:
        child = cluster.run(body)["worker:0"].value
        eventually(partial(has_ended, child), f"process {child} to be gone")
    assert not [path for path in short_temporary.iterdir() if "forkserver" not in path.name]
