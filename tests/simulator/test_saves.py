"""Saves and restores as events of the journal: which calls they are of, what they say, and that they change nothing."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from simulator import RunFailed, Topology
from simulator.agent.agent import Agent
from simulator.agent.saves import saving
from simulator.faults import Crash, Kill
from simulator.faults.history import canonical_history
from simulator.wire import control
from simulator.wire.spec import TaskSpec
from tests.simulator._fake_saves import checkpoints, run_one, saves_of, train, write_fakes
from tests.simulator._faults import own_agent, plan_of
from tests.simulator._only_run import bare, result_of

MANAGER, CHECKPOINT = "tf.train.CheckpointManager", "tf.train.Checkpoint"


@pytest.fixture
def fakes(tmp_path: Path) -> str:
    """Where a task finds the stand-ins for TensorFlow."""
    return write_fakes(tmp_path)


def _short(event: dict[str, Any]) -> tuple[Any, ...]:
    return event["event"], event["kind"].rpartition(".")[2], event["path"], event["failed"], event["asynchronous"]


def _nested(fakes: str, directory: str) -> None:
    agent = own_agent()
    checkpoint, manager = checkpoints(fakes)
    os.chdir(directory)
    own = checkpoint()
    managed = manager(own, f"{directory}/managed", interval=2)
    managed.restore_or_initialize()
    own.restore(None)
    managed.save()
    agent.step(1)
    managed.save()
    own.save(Path("plain") / "x")
    own.read(own.write(file_prefix="written"))
    managed.restore_or_initialize()


def test_nested_calls_are_one_event(fakes: str, tmp_path: Path) -> None:
    """That of the outermost call, with step, path and bytes; a call that found nothing to do is none."""
    (tmp_path / "work").mkdir()
    run_one(_nested, tmp_path / "out", fakes, str(tmp_path / "work"))
    events = saves_of(tmp_path / "out")
    assert [(event["event"], event["kind"], event["path"], event["bytes"], event["step"]) for event in events] == [
        ("restore", f"{CHECKPOINT}.restore", None, None, 0),
        ("save", f"{MANAGER}.save", "managed/ckpt-1", 25, 1),
        ("save", f"{CHECKPOINT}.save", "plain/x-2", 25, 1),
        ("save", f"{CHECKPOINT}.write", "written", 25, 1),
        ("restore", f"{CHECKPOINT}.read", "written", None, 1),
        ("restore", f"{MANAGER}.restore_or_initialize", "managed/ckpt-1", None, 1),
    ]
    for event in events:
        assert (event["task"], event["incarnation"], event["failed"], event["unfinished"]) == (
            "worker:0",
            0,
            None,
            False,
        )
        assert event["seconds"] >= 0
        assert event["at"] + event["seconds"] <= event["t"]


def _failing(fakes: str) -> list[str]:
    checkpoint, manager = checkpoints(fakes)
    calls: list[Callable[[], object]] = [
        lambda: checkpoint().save("bad/x"),
        lambda: manager(checkpoint(), "bad").save(),
        lambda: checkpoint().read("none"),
    ]
    told = []
    for call in calls:
        try:
            call()
        except OSError as error:
            told.append(f"{type(error).__name__}: {error}")
    return told


def test_a_failure_is_recorded_and_raised_as_it_was(fakes: str, tmp_path: Path) -> None:
    """The event has the exception's class; the program gets the exception itself."""
    assert run_one(_failing, tmp_path / "out", fakes) == [
        "OSError: no space",
        "OSError: no space",
        "FileNotFoundError: [Errno 2] No such file or directory: 'none.index'",
    ]
    assert [_short(event) for event in saves_of(tmp_path / "out")] == [
        ("save", "save", "bad/x-1", "OSError", None),
        ("save", "save", "bad/ckpt-1", "OSError", None),
        ("restore", "read", "none", "FileNotFoundError", None),
    ]


def _asynchronous(fakes: str, directory: str) -> None:
    checkpoint, manager = checkpoints(fakes)
    os.chdir(directory)
    own = checkpoint()
    own.save("x", options="async")
    own.write("bad", options="async")
    try:
        own.save("y", options="async")
    except OSError:
        manager(own, "managed").save(options="async")


def test_asynchronous_checkpoints_begin_and_really_end(fakes: str, tmp_path: Path) -> None:
    """Two events: of the call, and of the writing by the thread, for which a function that has returned waits.

    A failure is that of the write, and again of the next call, to which TensorFlow gives it.
    """
    (tmp_path / "work").mkdir()
    run_one(_asynchronous, tmp_path / "out", fakes, str(tmp_path / "work"))
    events = saves_of(tmp_path / "out")
    assert [_short(event) for event in events if event["asynchronous"] != "thread"] == [
        ("save", "save", "x-1", None, "call"),
        ("save", "write", "bad", None, "call"),
        ("save", "save", "y", "OSError", None),
        ("save", "save", "managed/ckpt-1", None, "call"),
    ]
    behind = [event for event in events if event["asynchronous"] == "thread"]
    assert [_short(event)[1:4] for event in behind] == [
        ("save", "x-1", None),
        ("write", "bad", "OSError"),
        ("save", "managed/ckpt-1", None),
    ]
    assert behind[-1]["kind"] == f"{MANAGER}.save"
    assert [event["bytes"] for event in events if event["asynchronous"] == "call"] == [None] * 3
    assert [event["bytes"] for event in behind] == [25, None, 25]
    lines = canonical_history(tmp_path / "out" / "0" / "journal.jsonl")
    assert lines[1:] == (
        f"worker:0: began to save x-1 by {CHECKPOINT}.save",
        f"worker:0: began to save bad by {CHECKPOINT}.write",
        f"worker:0: failed to save y by {CHECKPOINT}.save, OSError",
        f"worker:0: began to save managed/ckpt-1 by {MANAGER}.save",
        f"worker:0: failed to save in the background bad by {CHECKPOINT}.write, OSError",
    )


def _dies(fakes: str) -> None:
    checkpoint, _ = checkpoints(fakes)
    module: Any = sys.modules["tensorflow.python.checkpoint.checkpoint"]
    module.os = SimpleNamespace(path=os.path, makedirs=lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
    checkpoint().save("x")


def test_a_save_that_death_cuts_off(fakes: str, tmp_path: Path) -> None:
    """It is an event nevertheless, unfinished, also in the outcome, and not in the canonical history."""
    with pytest.raises(RunFailed) as caught:
        run_one(_dies, tmp_path / "out", fakes)
    (saved,) = caught.value.result["worker:0"].incarnations[0].saves
    assert (saved.path, saved.failed, saved.unfinished) == ("x-1", None, True)
    (event,) = saves_of(tmp_path / "out")
    assert (event["kind"], event["path"], event["failed"], event["unfinished"]) == (
        f"{CHECKPOINT}.save",
        "x-1",
        None,
        True,
    )
    assert not [line for line in canonical_history(tmp_path / "out" / "0" / "journal.jsonl") if "save" in line]


def test_an_error_of_the_bookkeeping_does_not_reach_the_program(fakes: str, tmp_path: Path) -> None:
    """It is one line in the log, and the save is done."""
    task = result_of(bare(Topology(worker=1), out=tmp_path / "out"), _broken, fakes, str(tmp_path))["worker:0"]
    assert task.value == (f"{tmp_path}/x-1", f"{tmp_path}/x-2")
    assert (tmp_path / "x-2.index").exists()
    assert task.log.count("a save of this program cannot be recorded: RuntimeError: not yours") == 1
    assert saves_of(tmp_path / "out") == []


def _broken(fakes: str, directory: str) -> tuple[str, str]:
    checkpoint, _ = checkpoints(fakes)
    from simulator.agent.saves import saves

    def fail(*_: Any) -> None:
        raise RuntimeError("not yours")

    saves._shown = fail  # type: ignore[assignment]
    own = checkpoint()
    return own.save(f"{directory}/x"), own.save(f"{directory}/x")


def test_without_a_task_nothing_happens() -> None:
    """An instrumented function behaves as before in a process that is no task, also when it fails."""

    def load_model(filepath: str) -> str:
        return filepath.upper()

    module = SimpleNamespace(__name__="keras.src.saving.saving_api", load_model=load_model)
    saving.keras_functions(module)
    assert module.load_model is not load_model
    assert module.load_model(filepath="x") == "X"
    with pytest.raises(AttributeError, match="upper"):
        module.load_model(1)


def test_nothing_is_imported_for_it(tmp_path: Path) -> None:
    """A task that saves nothing has neither TensorFlow nor the code that would record a save."""
    code = "tensorflow", "keras", "tf_keras", "simulator.agent.saves.saves", "simulator.agent.saves.saving"
    assert run_one(lambda: [name for name in code if name in sys.modules], tmp_path / "out") == []


def _in_threads_and_forks(fakes: str, directory: str) -> None:
    checkpoint, manager = checkpoints(fakes)
    os.chdir(directory)
    threads = [threading.Thread(target=manager(checkpoint(), f"t{number}").save) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if child := os.fork():
        os.waitpid(child, 0)
    else:
        checkpoint().save("child")
        os._exit(0)


def test_threads_count_and_forks_do_not(fakes: str, tmp_path: Path) -> None:
    """Calls in several threads are not nested in each other; a process that the program has forked is not the task."""
    (tmp_path / "work").mkdir()
    run_one(_in_threads_and_forks, tmp_path / "out", fakes, str(tmp_path / "work"))
    assert sorted(event["path"] for event in saves_of(tmp_path / "out")) == [f"t{number}/ckpt-1" for number in range(4)]
    assert (tmp_path / "work" / "child-1.index").exists()


PROGRAM = """
import simulator
from tensorflow.python.checkpoint.checkpoint import Checkpoint
own = Checkpoint()
for _ in range(2):
    simulator.step()
    own.save("x")
own.restore("x-2")
"""


def test_saves_of_an_unmodified_program(fakes: str, tmp_path: Path) -> None:
    """Its saves are events as those of functions are."""
    (tmp_path / "program.py").write_text(PROGRAM)
    env = {"PYTHONPATH": fakes}
    with bare(Topology(worker=1), out=tmp_path / "out", env=env) as cluster:
        cluster.run_command([sys.executable, str(tmp_path / "program.py")], cwd=tmp_path)
    assert [(*_short(event)[:3], event["step"]) for event in saves_of(tmp_path / "out")] == [
        ("save", "save", "x-1", 1),
        ("save", "save", "x-2", 2),
        ("restore", "restore", "x-2", 2),
    ]


@pytest.mark.parametrize("phase", ["before_save", "after_save", "before_restore"])
def test_a_fault_at_a_point_of_a_save(fakes: str, tmp_path: Path, phase: str) -> None:
    """A phase is a point of the instrumented call: what is raised there is the program's, and the event's."""
    plan = plan_of(Crash("worker:0", how="exception", phase=phase, nth=2))
    (tmp_path / "work").mkdir()
    run_one(_until_crash, tmp_path / "out", fakes, str(tmp_path / "work"), faults=plan)
    events = saves_of(tmp_path / "out")
    failed = [event["failed"] for event in events if event["event"] == ("restore" if "restore" in phase else "save")]
    assert failed == [None, "InjectedCrash"]
    assert (tmp_path / "work" / "m" / "ckpt-2.index").exists() == (phase != "before_save")


def _until_crash(fakes: str, directory: str) -> None:
    checkpoint, manager = checkpoints(fakes)
    os.chdir(directory)
    own = manager(checkpoint(), "m")
    for _ in range(3):
        own.save()
        own.restore_or_initialize()


PLAN = plan_of(Kill("worker:?", of="worker:*", step="3..5", restart="10ms"), seed=4)


def _history(fakes: str, place: Path, interval: int = 2) -> tuple[str, ...]:
    place.mkdir()
    result_of(bare(Topology(worker=2), faults=PLAN, out=place / "out"), train, fakes, str(place), 6, interval)
    return canonical_history(place / "out" / "0" / "journal.jsonl")


@pytest.mark.full
def test_two_runs_of_one_seed_save_alike(fakes: str, tmp_path: Path) -> None:
    """Histories with saves are equal although the checkpoints are elsewhere; other saves make another history."""
    first = _history(fakes, tmp_path / "a")
    assert _history(fakes, tmp_path / "b") == first
    saved = [line for line in first if "saved" in line]
    assert saved[-3:] == [f"worker:1: saved ckpt-{number} by {MANAGER}.save" for number in (1, 2, 3)]
    assert len(saved) in (7, 8)  # and those of the process that was killed, after step 3, 4 or 5
    assert str(tmp_path) not in "".join(first)
    assert _history(fakes, tmp_path / "c", interval=3) != first


class _Interrupted:
    """A connection that a handler of signals interrupts in the middle of the first message."""

    def __init__(self, handler: Callable[[], None], real: socket.socket) -> None:
        self._handlers = [handler]
        self._real = real
        self.sent = b""

    def fileno(self) -> int:
        """That of the connection which is there."""
        return self._real.fileno()

    def sendall(self, data: bytes) -> None:
        """Take the data in two pieces."""
        self.sent += data[:2]
        if self._handlers:
            self._handlers.pop()()
        self.sent += data[2:]


def test_a_handler_of_signals_may_save(tmp_path: Path) -> None:
    """What it sends while its own thread sends waits for its turn, and neither is torn nor waits for ever."""
    control_socket = str(tmp_path / "s")
    spec = TaskSpec("worker:0", 0, {}, "cpu:1", 0, 1, tensorflow=False, server=False, control=control_socket)
    messages = [control.StepDone(number=number, at=0.0) for number in (1, 2)]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(spec.control)
        listener.listen()
        agent = Agent(spec, lambda *_: None)
    with agent._connection:
        connection = _Interrupted(lambda: agent.send(messages[1]), agent._connection)
        agent._connection = connection  # type: ignore[assignment]
        agent.send(messages[0])
    assert list(control.ControlInbox().feed(connection.sent)) == messages
