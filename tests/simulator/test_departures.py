"""Tasks that take unequal numbers of steps: who has returned is let go, so that who waits for it is told."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from simulator import Cluster, RunFailed, RunResult, TaskError, TaskResult, Topology
from simulator.journal.journal import Journal, read_journal
from simulator.run import departures
from simulator.run.departures import Departures
from simulator.run.task import Task
from tests.simulator._faults import own_agent
from tests.simulator._wire import eventually

bare = partial(Cluster, Topology(worker=2), preload=(), timeout=60)
_CONNECTIONS: list[socket.socket] = []


def _uneven(place: str) -> int:
    """worker:1 makes four steps and returns, worker:0 a fifth, in which it waits for a byte of worker:1."""
    agent = own_agent()
    leaves = agent.spec.task == "worker:1"
    connection = _accepted(Path(place)) if leaves else _opened(Path(place))
    # As those of TensorFlow, it is open for as long as the process lives.
    _CONNECTIONS.append(connection)
    for number in range(1, 5):
        agent.step(number)
    if not leaves and not connection.recv(1):
        raise ConnectionError("Socket closed")
    return 4


def _accepted(place: Path) -> socket.socket:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place / "new"))
        server.listen()
        (place / "new").rename(place / "server")
        return server.accept()[0]


def _opened(place: Path) -> socket.socket:
    eventually((place / "server").exists, "worker:1 to listen")
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(place / "server"))
    return connection


def test_who_waits_for_a_task_that_has_returned_is_told(tmp_path: Path) -> None:
    """Within seconds, and by its own library, as outside of Lockstep; the message has the steps of both."""
    began = time.monotonic()
    with bare(out=tmp_path / "out") as cluster, pytest.raises(RunFailed) as caught:
        cluster.run(_uneven, str(tmp_path))
    assert time.monotonic() - began < 20
    assert (caught.value.root_cause.task, caught.value.root_cause.kind) == ("worker:0", "ConnectionError")
    assert "\nworker:1 was done before that, after step 4; worker:0 was in step 5\n" in str(caught.value)
    (told,) = [each for each in read_journal(tmp_path / "out" / "0" / "journal.jsonl") if each["event"] == "let_go"]
    assert (told["task"], told["waiting"]) == ("worker:1", ["worker:0"])


class _Scene:
    """Two tasks, the second of which has returned, and a clock."""

    def __init__(self, path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.cpu = 0.0
        monkeypatch.setattr(departures, "_cpu_seconds", lambda _: self.cpu)
        monkeypatch.setattr(departures, "now", lambda: self.now)
        self.tasks = {name: Task(name, True, path, path, pid=os.getpid()) for name in ("worker:0", "worker:1")}
        self.tasks["worker:1"].result = b"x"
        self.partings = Departures(self.tasks, journal)

    def is_let_go(self, *, each: Any = lambda task: None) -> bool:
        """Whether it is within five seconds, in which `each` happens to the other one every half a second."""
        for _ in range(10):
            self.partings.look()
            self.now += 0.5
            each(self.tasks["worker:0"])
        return self.tasks["worker:1"].let_go


def test_who_is_at_work_keeps_its_peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever uses a processor, makes steps or stands at a gate does not wait for them; the control does."""
    with contextlib.closing(Journal(tmp_path / "journal.jsonl")) as journal:
        scene = _Scene(tmp_path, journal, monkeypatch)

        def works(_: Task) -> None:
            scene.cpu += 0.2

        def steps(task: Task) -> None:
            task.steps += 1

        assert not scene.is_let_go(each=works)
        assert not scene.is_let_go(each=steps)
        scene.tasks["worker:0"].at_gate = "step:3"
        assert not scene.is_let_go()
        scene.tasks["worker:0"].at_gate = None
        assert scene.is_let_go()


def _failed(done_at: float | None, steps: int = 4) -> str:
    nothing: dict[str, Any] = {"value": None, "exit": 0, "signal": None, "log": "", "incarnation": 0, "stopped": False}
    error = TaskError("worker:1", "Exit", "code 1", at=5.0)
    nothing |= {"done_at": done_at}  # also the one that failed, where the failure is of the whole job
    tasks = {
        "worker:0": TaskResult("worker:0", error=None, steps=steps, **nothing),
        "worker:1": TaskResult("worker:1", error=error, steps=7, **nothing),
    }
    return str(RunFailed((error,), RunResult(tasks, 9.0, Path())))


def test_only_who_was_done_before_is_named() -> None:
    """Not one that came to its end later, or not at all, and not where no steps are known."""
    assert "worker:0 was done before that, after step 4; worker:1 was in step 8" in _failed(4.0)
    assert _failed(4.0).count("was done before") == 1
    assert "was done before" not in _failed(6.0) + _failed(None) + _failed(4.0, steps=0)


_NESTED = """in user code:

    File "train.py", line 21, in call  *
        output = self.gru(x)

    ValueError: Exception encountered when calling layer 'gru' (type GRU).

    Dimensions must be equal, but are 16 and 8.

    Call arguments received by layer 'gru' (type GRU):
      - mask=None
"""


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("no room\nin the folder", "no room"),
        (_NESTED, "Dimensions must be equal, but are 16 and 8."),
        ('in user code:\n\n    File "t.py", line 3\n\n    ValueError: no destination\n', "no destination"),
        ("Graph execution error:", "Graph execution error:"),
        ("", ""),
    ],
)
def test_an_error_is_told_by_the_line_that_says_what_is_wrong(message: str, said: str) -> None:
    """And not by the first one where that is no more than where TensorFlow was."""
    error = TaskError("worker:1", "ValueError", message)
    text = str(RunFailed((error,), RunResult({}, 9.0, Path())))
    assert text.splitlines()[0] == f"worker:1 failed first: ValueError: {said}"
