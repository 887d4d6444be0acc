"""Whatever moment an interruption comes at, what was forked is known and is ended."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any

import psutil
import pytest
from multiprocess import forkserver as mp_forkserver

from simulator import Cluster, Topology
from simulator.launch import Forkserver, at_import, forkserver
from simulator.machines.local.task_listener import TaskListener
from simulator.machines.local.uninterrupted import uninterrupted
from simulator.machines.local.warden import Warden
from tests.simulator._wire import eventually

# When a task has been forked: inside `multiprocess`, before the warden knows it, and before the run does.
MOMENTS = [(mp_forkserver, "read_signed"), (Warden, "watch_group"), (TaskListener, "watch")]


class Interrupted(BaseException):
    """What the handler of Ctrl-C raises, under a name that nobody else has."""


@pytest.fixture
def interrupt() -> Iterator[Callable[[], None]]:
    """Interrupts this process as Ctrl-C does, by a signal that nobody else uses."""

    def handler(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, handler)
    yield lambda: os.kill(os.getpid(), signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


def _fail() -> None:
    raise Interrupted


def _parent() -> Forkserver:
    """Where the tasks are forked: with what TensorFlow reads at its import as this process has it."""
    return forkserver((), at_import(os.environ))


def _forked() -> list[psutil.Process]:
    return psutil.Process(_parent().pid).children(recursive=True)


def _stop_both() -> None:
    """Neither can notice any more that its parent gives up."""
    eventually(lambda: len(_forked()) == 2, "the tasks to be forked")
    for process in _forked():
        process.suspend()


@pytest.mark.parametrize("where", MOMENTS, ids=lambda where: where[1])
@pytest.mark.parametrize("how", ["a signal", "an error"])
def test_an_interruption_between_fork_and_registration_leaves_nobody(
    how: str, where: tuple[Any, str], interrupt: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of two tasks has been forked, and the run does not know that yet."""
    _parent().warm_up()
    original, calls = getattr(*where), []

    def hook(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 2:
            _stop_both()
            interrupt() if how == "a signal" else _fail()
        return original(*args)

    monkeypatch.setattr(*where, hook)
    try:
        with (
            Cluster(Topology(worker=2), preload=()) as cluster,
            pytest.raises(Interrupted),
            cluster.start(threading.Event().wait),
        ):
            pytest.fail("the run was not interrupted")
        assert len(calls) >= 2
        eventually(lambda: not _forked(), "what was forked to end")
    finally:
        for process in _forked():
            process.kill()


def test_a_call_is_not_broken_off(interrupt: Callable[[], None]) -> None:
    """A signal that comes while it goes on is answered when it is over; without one it is a plain call."""
    done = []

    def call(signals: int) -> str:
        for _ in range(signals):
            interrupt()
        done.append(signals)
        return "value"

    assert uninterrupted(partial(call, 0)) == "value"
    for signals in (1, 3):
        with pytest.raises(Interrupted):
            uninterrupted(partial(call, signals))
    assert done == [0, 1, 3]
    with pytest.raises(ZeroDivisionError):
        uninterrupted(lambda: 1 / 0)


def test_a_call_that_cannot_begin_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interruption before there is a thread, or want of one, is raised at once, and nothing is called."""
    done = []

    def start(thread: threading.Thread) -> None:
        raise Interrupted

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(Interrupted):
        uninterrupted(lambda: done.append(1))
    assert done == []
