"""When a fault strikes: at a step or phase, at a byte or connection of a link, at a line of a log, or after a time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from simulator.faults.injector.tail import Tail
from simulator.faults.protocol import Fault
from simulator.network import Link
from simulator.units import parse_duration

if TYPE_CHECKING:
    from simulator.faults.injector.strike import Strike

__all__ = ["counting_link", "points", "until_gate", "wait_trigger"]

# A log announces its lines to nobody.
_LOG_POLL_SECONDS = 0.02


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
    return None if fault.until is None else f"step:{fault.until}"


def wait_trigger(strike: Strike) -> bool:
    """Wait until the fault's trigger has come; False when faults are to end before that, or it cannot come any more."""
    trigger = strike.fault.trigger
    if trigger in ("step", "phase"):
        return _wait_gate(strike)
    if trigger in ("bytes", "connections"):
        return _wait_link(strike)
    if trigger == "log":
        return _wait_log(strike)
    return _wait_time(strike)


def _wait(strike: Strike, come: Callable[[], bool], hopeless: Callable[[], bool], seconds: float | None = None) -> bool:
    """Wait until it has come, cannot come any more, or this time has passed; whether it has come."""
    with strike.run.changed:
        strike.run.changed.wait_for(lambda: strike.stopping or come() or hopeless(), seconds)
        return come() and not strike.stopping


def _wait_gate(strike: Strike) -> bool:
    gate, of = strike.fault.gate, strike.fault.of or ()
    assert gate is not None
    return _wait(
        strike,
        lambda: strike.keeper.has_turn(strike.name, of, gate),
        lambda: any(strike.run.is_over(task) for task in of),
    )


def _wait_link(strike: Strike) -> bool:
    def announce(*_: object) -> None:
        with strike.run.changed:
            strike.run.changed.notify_all()

    strike.run.network.on_fired(announce)
    rule = strike.rule = strike.run.network.set(strike.fault.trigger_link() or counting_link(strike.fault))
    # A task that has come to the step of the end stands there until this fault is out of the question.
    return _wait(strike, lambda: bool(rule.fired), strike.at_until)


def _wait_log(strike: Strike) -> bool:
    pattern = re.compile(strike.fault.log or "")
    logs = [Tail(strike.task(task).log_path) for task in strike.fault.of or tuple(strike.run.tasks)]
    # Not while holding the condition, which the thread of events needs: a log may be long.
    while not any(pattern.search(line) for log in logs for line in log.read()):
        _wait(strike, lambda: False, strike.at_until, _LOG_POLL_SECONDS)
        if strike.stopping or strike.at_until():
            return False
    return not strike.stopping


def _wait_time(strike: Strike) -> bool:
    due = strike.run.began + parse_duration(strike.fault.time, "time")
    return _wait(strike, lambda: time.monotonic() >= due, strike.at_until, max(0.0, due - time.monotonic()))


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
