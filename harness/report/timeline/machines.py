"""The machines of a run, and which orders of events of two of them are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.report.timeline.model import Life, MachineRow
from simulator.machines.far.clock import DRIFT


def machine_rows(
    start: Mapping[str, Any], events: Iterable[Mapping[str, Any]], seconds: float
) -> tuple[MachineRow, ...]:
    """Those that the journal names.

    Args:
        start: its first event.
        events: all of them, with times since the start.
        seconds: for how long the run went on.
    """
    clocks = {name: error + DRIFT * seconds for name, error in start.get("clocks", {}).items()}
    silent: dict[str, list[float]] = {}
    lost: dict[str, tuple[float, str]] = {}
    for event in events:
        if event["event"] == "machine_silent":
            silent.setdefault(event["machine"], []).append(event["at"])
        elif event["event"] == "machine_lost":
            # Of one that was not heard, `at` is since when; it was given up later.
            lost[event["machine"]] = event["t"], event["why"]
    return tuple(
        MachineRow(
            name=name,
            clock_error=error,
            silent=tuple(silent.get(name, ())),
            lost=lost[name][0] if name in lost else None,
            why=lost[name][1] if name in lost else "",
        )
        for name, error in clocks.items()
    )


def maybe_earlier(at: float, life: Life, others: Iterable[Life], machines: Sequence[MachineRow]) -> tuple[str, ...]:
    """The tasks of these that failed later than `life` did, `at`, by what their clocks say, and maybe did not."""
    errors = {machine.name: machine.clock_error for machine in machines}
    found = []
    for other in others:
        if other.failed_at is None or other.machine == life.machine:
            continue
        doubt = errors.get(life.machine or "", 0.0) + errors.get(other.machine or "", 0.0)
        if 0 <= other.failed_at - at < doubt:
            found.append(other.task)
    return tuple(found)
