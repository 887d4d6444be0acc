"""When a fault strikes: at a step or phase, at a byte or connection of a link, at a line of a log, or after a time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from simulator.faults.injector.gates import Gatekeeper
from simulator.faults.protocol import Fault
from simulator.network import Link, LinkRule
from simulator.run.protocol import Running
from simulator.run.task import Task
from simulator.units import parse_duration

# A log announces its lines to nobody.
_LOG_POLL_SECONDS = 0.02


class PendingFault(Protocol):
    """A fault that waits for its trigger during a run."""

    fault: Fault
    run: Running
    name: str
    keeper: Gatekeeper
    # The condition on the network that counts to the trigger.
    rule: LinkRule | None

    @property
    def stopping(self) -> bool:
        """Whether faults are to end."""

    def at_until(self) -> bool:
        """Whether what would end the fault has come already."""

    def task(self, name: str) -> Task:
        """The present incarnation of a task."""


def points(faults: Iterable[Fault]) -> dict[tuple[str, str], list[str]]:
    """Every task and gate at which a fault has something to do, and the ids of those faults in the plan's order."""
    found: dict[tuple[str, str], list[str]] = {}
    for fault in faults:
        for gate in (fault.gate, until_gate(fault)):
            for task in fault.of or ():
                if gate is not None:
                    found.setdefault((task, gate), []).append(str(fault.id))
    return found


def until_gate(fault: Fault) -> str | None:
    """The gate at which it is undone."""
    return None if fault.until is None else fault.in_incarnation(f"step:{fault.until}")


def wait_trigger(waiting: PendingFault) -> bool:
    """Wait until the fault's trigger has come; False when faults are to end before that, or it cannot come any more."""
    trigger = waiting.fault.trigger
    if trigger in ("step", "phase"):
        return _wait_gate(waiting)
    if trigger in ("bytes", "connections"):
        return _wait_link(waiting)
    if trigger == "log":
        return _wait_log(waiting)
    return _wait_time(waiting)


def _wait(
    waiting: PendingFault, come: Callable[[], bool], hopeless: Callable[[], bool], seconds: float | None = None
) -> bool:
    """Wait until it has come, cannot come any more, or this time has passed; whether it has come."""
    with waiting.run.changed:
        waiting.run.changed.wait_for(lambda: waiting.stopping or come() or hopeless(), seconds)
        return come() and not waiting.stopping


def _wait_gate(waiting: PendingFault) -> bool:
    gate, of = waiting.fault.gate, waiting.fault.of or ()
    assert gate is not None
    return _wait(
        waiting,
        lambda: waiting.keeper.has_turn(waiting.name, of, gate),
        lambda: any(waiting.run.is_over(task) for task in of),
    )


def _wait_link(waiting: PendingFault) -> bool:
    def announce(*_: object) -> None:
        with waiting.run.changed:
            waiting.run.changed.notify_all()

    waiting.run.network.on_fired(announce)
    rule = waiting.rule = waiting.run.network.set(waiting.fault.trigger_link() or counting_link(waiting.fault))
    # A task that has come to the step of the end stands there until this fault is out of the question.
    return _wait(waiting, lambda: bool(rule.fired), waiting.at_until)


def _wait_log(waiting: PendingFault) -> bool:
    pattern = re.compile(waiting.fault.log or "")
    logs = [_Tail(waiting.task(task).log_path) for task in waiting.fault.of or tuple(waiting.run.tasks)]
    # Not while holding the condition, which the thread of events needs: a log may be long.
    while not any(pattern.search(line) for log in logs for line in log.read()):
        _wait(waiting, lambda: False, waiting.at_until, _LOG_POLL_SECONDS)
        if waiting.stopping or waiting.at_until():
            return False
    return not waiting.stopping


def _wait_time(waiting: PendingFault) -> bool:
    due = waiting.run.began + parse_duration(waiting.fault.time, "time")
    return _wait(waiting, lambda: time.monotonic() >= due, waiting.at_until, max(0.0, due - time.monotonic()))


def counting_link(fault: Fault) -> Link:
    """A condition without an effect on the link that the fault names, which only counts to the trigger."""
    return Link(
        src=str(fault.src),
        dst=str(fault.dst),
        hold="0us",
        one_way=True,
        after_bytes=fault.bytes_,
        after_connections=None if fault.connections is None else int(fault.connections),
    )


class _Tail:
    """Reads a log piece by piece, so that a long one is not read again at every look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rest = b""
        self._position = 0

    def read(self) -> list[str]:
        """The lines that have come, and as much of the last one as there is; a carriage return ends a line too."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                data = file.read()
        except FileNotFoundError:
            return []
        if not data:
            return []
        self._position += len(data)
        text = self._rest + data
        self._rest = text[max(text.rfind(b"\n"), text.rfind(b"\r")) + 1 :]
        return text.decode(errors="replace").splitlines()
