"""What comes on the control socket and is no message: a task that sent it is named, a stranger is turned away."""

from __future__ import annotations

import os
import re
import selectors
import signal
import socket
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from simulator import Cluster, RunFailed, Topology
from simulator.journal import read_journal
from simulator.machines.local.connection import Connection
from simulator.wire import control, framing
from tests._ended import has_ended
from tests.simulator._faults import own_agent
from tests.simulator._only_run import failure_of
from tests.simulator._wire import eventually

bare = partial(Cluster, preload=(), timeout=20)

HELLO = control.encode(control.Hello(task="worker:9", incarnation=0, pid=1))
KEYLESS = control.encode(control.Hello(task="worker:1", incarnation=0, pid=1))
NONSENSE = {
    "not MessagePack": (b"\x03\x00\x00\x00\xc1\xc1\xc1", "3 bytes cannot be read"),
    "no known message": (framing.encode({"type": "Sing", "at": 1.0}), "Invalid value 'Sing'"),
    "a field of another type": (framing.encode({"type": "StepDone", "number": "one", "at": 1.0}), "Expected `int`"),
    "text": (b"GET / HTTP/1.1\r\n\r\n", "a message of 542393671 bytes is announced"),
    "a frame of 4 GiB": (b"\xff\xff\xff\xff\x83\xa4type\xa8StepDone", "a message of 4294967295 bytes is announced"),
    "an unknown task": (HELLO, "it greets as worker:9, and the tasks are worker:0, worker:1"),
    "no key": (KEYLESS, "it greets as worker:1 without the key of the run"),
    "no greeting": (control.encode(control.StepDone(number=1, at=1.0)), "StepDone comes before a greeting"),
    "deep nesting": (framing.LENGTH.pack(9999) + b"\x91" * 9999, "9999 bytes cannot be read"),
}


def _says(data: bytes, *, own: bool) -> None:
    """Worker 1 sends this, on its agent's connection or on one of its own, and waits as worker 0 does."""
    agent = own_agent()
    if agent.spec.task == "worker:1":
        wire = agent._connection if own else socket.socket(socket.AF_UNIX)
        if not own:
            wire.connect(agent.spec.control)
        wire.sendall(data)
    threading.Event().wait()


@pytest.mark.parametrize(
    "kind", ["not MessagePack", *(pytest.param(each, marks=pytest.mark.full) for each in ("text", "an unknown task"))]
)
def test_a_task_that_speaks_nonsense_is_named_at_once(kind: str) -> None:
    """Long before the timeout, by the process that has connected: a greeting proves nothing."""
    data, why = NONSENSE[kind]
    failure = failure_of(bare(Topology(worker=2)), _says, data, own=False)
    cause = failure.root_cause
    assert (cause.task, cause.kind) == ("worker:1", "BrokenMessage")
    assert why in cause.message
    assert failure.result.seconds < 15


def test_nonsense_on_the_agents_own_connection_is_the_tasks() -> None:
    """As when a program writes to a descriptor that is not its own."""
    with bare(Topology(worker=2)) as cluster, pytest.raises(RunFailed, match="worker:1 failed first: BrokenMessage"):
        cluster.run(_says, b"\x01\x00\x00\x00\x00", own=True)


def test_half_a_message_and_silence_is_a_hang_that_says_so() -> None:
    """Nobody can know earlier: a task may be stopped while it sends."""
    half = control.encode(control.Result(value=bytes(100), at=1.0))[:50]
    with bare(Topology(worker=2), timeout=0.5) as cluster, cluster.start(_says, half, own=True) as run:
        eventually(lambda: bool(run.tasks["worker:1"].half_said), "half a message")
        with pytest.raises(RunFailed) as caught:
            run.join()
    hung = {cause.task: cause.message for cause in caught.value.causes}
    # More than was sent: heartbeats follow.
    assert re.search(r"of its last message it has sent \d+ of 133 bytes", hung["worker:1"])
    assert "of its last message" not in hung["worker:0"]


def _until(path: str) -> str:
    while not Path(path).exists():
        threading.Event().wait(0.01)
    return "well"


def test_a_stranger_neither_ends_nor_stalls_a_run(tmp_path: Path) -> None:
    """Every kind of nonsense, and more silent connections than are kept, come from outside the tasks: all is well."""
    with bare(Topology(worker=2), out=tmp_path) as cluster, cluster.start(_until, str(tmp_path / "go")) as run:
        journal = run.directory / "journal.jsonl"
        strangers = []
        for data in [b"", b"\x50\x00", *(data for data, _ in NONSENSE.values())] * 12:
            strangers.append(socket.socket(socket.AF_UNIX))
            strangers[-1].connect(str(run.directory / "control.sock"))
            strangers[-1].sendall(data)
        (tmp_path / "go").touch()
        assert [task.value for task in run.join().values()] == ["well", "well"]
        turned_away = [event for event in read_journal(journal) if event["event"] == "stranger"]
    assert {event["pid"] for event in turned_away} == {os.getpid()}
    assert {why for _, why in NONSENSE.values() if not any(why in event["why"] for event in turned_away)} == set()
    for stranger in strangers:
        stranger.close()


def test_only_a_result_may_be_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a function returns may be large, in whatever pieces it comes; with any other it is nonsense at once."""
    monkeypatch.setattr(framing, "_SMALL_BYTES_MAX", 99)
    message = control.encode(control.Result(value=bytes(100), at=1.0))
    inbox = control.ControlInbox()
    assert [found for start in range(20) for found in inbox.feed(message[start : start + 1])] == []
    (result,) = inbox.feed(message[20:])
    assert isinstance(result, control.Result)
    assert inbox.unfinished == ""
    error = control.Error(kind="", bases=(), message="x" * 100, traceback="", at=1.0)
    with pytest.raises(framing.Malformed, match="a message of 1"):
        list(inbox.feed(control.encode(error)[:20]))


def test_a_child_that_keeps_the_connection_does_not_stall_the_run() -> None:
    """The task has ended and its connection has not: what is left to read is read, and no more is waited for."""

    def body() -> None:
        if os.fork() == 0:
            os.setsid()
            signal.pause()
        os._exit(7)

    with bare(Topology(worker=1)) as cluster, pytest.raises(RunFailed, match="ended with exit code 7") as caught:
        cluster.run(body)
    assert caught.value.result.seconds < 15


class _Unreadable:
    def __reduce__(self) -> tuple[Callable[[int], None], tuple[int]]:
        return _only_in, (os.getpid(),)


def _only_in(pid: int) -> None:
    if os.getpid() != pid:
        raise LookupError("read elsewhere")


def test_a_result_that_cannot_be_read_names_its_task() -> None:
    """Reading it runs code, which may raise anything."""

    def body() -> Any:
        agent = own_agent()
        return _Unreadable() if agent.spec.task == "worker:1" else "well"

    failure = failure_of(bare(Topology(worker=2)), body)
    assert [(cause.task, cause.kind) for cause in failure.causes] == [("worker:1", "BrokenResult")]
    assert "LookupError: read elsewhere" in failure.root_cause.message
    assert failure.result["worker:0"].value == "well"


def test_a_message_may_hold_what_is_not_unicode() -> None:
    """The name of a file that is not UTF-8, in the text of an exception."""

    def body() -> None:
        raise ValueError(os.fsdecode(b"no \xff"))

    with bare(Topology(worker=1)) as cluster, pytest.raises(RunFailed, match=r"ValueError: no \\udcff"):
        cluster.run(body)


def test_who_does_not_listen_is_not_waited_for() -> None:
    """A stopped task takes nothing: what it is told waits, and arrives whole and in order when it listens again."""
    ours, theirs = socket.socketpair()
    with selectors.DefaultSelector() as selector, theirs:
        connection = Connection(ours, selector)
        sent = [bytes([number]) * 2**20 for number in range(8)]
        for piece in sent:
            connection.sendall(piece)
        assert selector.get_key(ours).events == selectors.EVENT_READ | selectors.EVENT_WRITE
        heard = bytearray()
        while len(heard) < 8 * 2**20:
            selector.select(0)
            connection.flush()
            heard += theirs.recv(2**20)
        assert heard == b"".join(sent)
        connection.flush()
        assert selector.get_key(ours).events == selectors.EVENT_READ
        connection.close()


def _gone(pid: int | None) -> bool:
    return pid is None or has_ended(pid)


def test_the_end_of_the_thread_of_events_fails_the_run_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ends it: the cause is told at once although there is no timeout, and the tasks are killed."""
    broken = threading.Event()
    select = selectors.DefaultSelector.select

    def breaks(self: selectors.DefaultSelector, timeout: float | None = None) -> Any:
        if broken.is_set() and threading.current_thread().name == "lockstep-events":
            raise RuntimeError("no more events")
        return select(self, timeout)

    monkeypatch.setattr(selectors.DefaultSelector, "select", breaks)
    with bare(Topology(worker=2), timeout=float("inf")) as cluster, cluster.start(_until, "/nowhere") as run:
        broken.set()
        with socket.socket(socket.AF_UNIX) as wakes:
            wakes.connect(str(run.directory / "control.sock"))
        with pytest.raises(RunFailed, match="not heard any more: no more events") as caught:
            run.join()
        pids = [task.pid for task in run.tasks.values()]
    assert (caught.value.root_cause.task, caught.value.root_cause.kind) == ("lockstep", "RuntimeError")
    eventually(lambda: all(_gone(pid) for pid in pids), "the tasks to be gone")
