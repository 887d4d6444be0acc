"""Whoever has ended is heard out, also where nobody had heard of it before."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import pytest

from simulator.machines.local.task_listener import TaskListener
from simulator.machines.protocol import Event
from simulator.wire import control
from simulator.wire.events import Ended, Greeted, Said, Who
from simulator.wire.framing import encode
from tests.simulator._wire import eventually

_WHO = Who("worker:0", 0)
_OTHER = Who("worker:1", 0)


class _Process:
    """One that ends when it is told to."""

    def __init__(self) -> None:
        self.sentinel, self._end = os.pipe()
        self.pid, self.lost, self.ended_at = os.getpid(), False, None

    def exit_code(self) -> int | None:
        return 0

    def end(self, seconds: float = 0.0) -> None:
        os.close(self._end)


@pytest.mark.parametrize("known", [False, True])
def test_what_a_short_process_has_said_comes_before_its_end(tmp_path: Path, known: bool) -> None:
    """It connects, says something and ends while another event is taken in; or it had connected before, and again."""
    heard: list[Event] = []
    free = threading.Event()
    free.set()

    def hear(event: Event) -> None:
        heard.append(event)
        free.wait(10)

    path = tmp_path / "control"
    ear = TaskListener(path, hear, (_WHO.task, _OTHER.task), "key", lambda who: None)
    processes = {who: _Process() for who in (_WHO, _OTHER)}
    for who, process in processes.items():
        ear.expect(who)
        ear.watch(who, process)
    wires = []
    if known:
        wires.append(_connected(path))
        eventually(lambda: any(isinstance(each, Greeted) for each in heard), "the first greeting")
        heard.clear()
    free.clear()
    processes[_OTHER].end()
    eventually(lambda: len(heard) == 1, "the event that is being taken in")
    wires.append(_connected(path))
    wires[-1].sendall(encode(control.Counting(by="Keras fit", at=time.monotonic())))
    processes[_WHO].end()
    free.set()
    eventually(lambda: any(isinstance(each, Ended) and each.who == _WHO for each in heard), "the end")
    ear.close()
    for wire in wires:
        wire.close()
    assert [type(each) for each in heard] == [Ended, Greeted, Said, Ended]


def _connected(path: Path) -> socket.socket:
    """A connection of the first task, which has greeted."""
    wire = socket.socket(socket.AF_UNIX)
    wire.connect(str(path))
    wire.sendall(encode(control.Hello(task=_WHO.task, incarnation=0, pid=os.getpid(), key="key")))
    return wire
