"""Reads the journals below a directory into timelines."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.damaged_files import reading
from harness.report.timeline.faults import fault_rows
from harness.report.timeline.machines import machine_rows
from harness.report.timeline.model import Life, LinkCondition, Mark, Save, Timeline
from simulator import UsageError
from simulator.journal import read_journal

_JOURNAL = "journal.jsonl"
# Where `lockstep run`, `Cluster(out=)` and `verify` leave them; an interrupted `verify` has two.
_PLACES = (_JOURNAL, f"*/{_JOURNAL}", f"run/*/{_JOURNAL}", f"*/run/*/{_JOURNAL}")

Event = Mapping[str, Any]


class _Plan(msgspec.Struct):
    """What is needed of a plan: the tables of its faults."""

    fault: list[dict[str, Any]] = []


def journals(directory: Path) -> list[Path]:
    """The journals that a run has left in this directory, in the order in which they were begun."""
    found = {path for place in _PLACES for path in directory.glob(place)}
    return sorted(found, key=lambda path: (_begun(path), path))


def _begun(journal: Path) -> float:
    """When it was begun by the wall clock; damage is found by who reads it all."""
    with contextlib.suppress(Exception):
        return float(next(read_journal(journal)).get("wall", 0.0))
    return 0.0


def read_timelines(directory: Path) -> list[Timeline]:
    """Every run below a directory that `lockstep run --out`, `Cluster(out=)` or `lockstep verify --out` has written.

    Raises:
        UsageError: there is no journal.
    """
    found = journals(directory)
    if not found:
        raise UsageError(f"{directory} holds no journal; make one with `lockstep run --out {directory} ...`")
    return [read_timeline(path, str(path.parent.relative_to(directory))) for path in found]


def read_timeline(journal: Path, name: str | None = None) -> Timeline:
    """One run from its journal, and from the plan beside it where there is one.

    Raises:
        UsageError: there is none, it has no start, or the plan is not one.
    """
    plan = journal.parent / "plan.json"
    with reading(plan):
        tables = msgspec.json.decode(plan.read_bytes(), type=_Plan).fault if plan.exists() else ()
    with reading(journal):
        return timeline_of(list(read_journal(journal)), tables, name=name or journal.parent.name)


def timeline_of(events: Sequence[Event], plan: Sequence[Mapping[str, Any]] = (), *, name: str = "") -> Timeline:
    """One run from its events.

    Args:
        events: what the journal holds, in its order.
        plan: the faults of the expanded plan, as tables.
        name: of the run.
    """
    start = next((event for event in events if event["event"] == "start"), None)
    if start is None:
        raise ValueError("the journal does not say how the run started")
    origin = float(start["t"])
    wall = next((float(event["wall"]) - (float(event["t"]) - origin) for event in events if "wall" in event), 0.0)
    moved = [_moved(event, origin) for event in events]
    lives = _lives(start["tasks"], moved)
    seconds = max(0.0, *(event["t"] for event in moved), *(event["at"] for event in moved))
    machines = machine_rows(start, moved, seconds)
    return Timeline(
        name=name,
        topology=str(start["topology"]),
        tasks=tuple(start["tasks"]),
        seconds=seconds,
        wall=wall,
        lives=lives,
        machines=machines,
        saves=tuple(sorted(_saves(moved), key=lambda save: save.begin)),
        marks=tuple(_marks(moved)),
        faults=fault_rows(plan, moved, lives, machines),
        conditions=_conditions(moved),
        links=tuple(_without(event, "t", "at", "event") for event in moved if event["event"] == "link"),
        fenced=sum(event["event"] == "fenced" for event in moved),
        problems=tuple(f"{event['kind']}: {event['message']}" for event in moved if event["event"] == "fault_problem"),
        ending=next(
            (event["how"] for event in moved if event["event"] == "end"), "cut off" if start.get("says_end") else None
        ),
    )


def _moved(event: Event, origin: float) -> dict[str, Any]:
    """The event with `t` (when it was written) and `at` (when it happened) since the start of the run."""
    # A task's own time stamp is of the same clock. It is 0 in an error that nobody dated.
    happened = event.get("at") or event["t"]
    return {**event, "t": event["t"] - origin, "at": max(0.0, happened - origin)}


def _without(event: Event, *names: str) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key not in names}


def _lives(tasks: Sequence[str], events: Sequence[Event]) -> tuple[Life, ...]:
    found: dict[tuple[str, int], dict[str, Any]] = {(task, 0): {"begin": 0.0} for task in tasks}
    places: Mapping[str, str] = {}
    for event in events:
        what = event["event"]
        places = event["machines"] if what in ("start", "moved") and "machines" in event else places
        if "incarnation" not in event or what == "fenced":
            continue
        key = (event["task"], event["incarnation"])
        life = found.setdefault(key, {"begin": event["at"]})
        life.setdefault("machine", places.get(event["task"]))
        if what == "restart":
            life.update(begin=event["at"], reason=event["reason"])
        elif what == "hello":
            life["hello"] = event["at"]
        elif what == "counting":
            # Another counter begins at 1 again: the steps counted so far were not the program's.
            life.update(counted_by=event["by"], steps=[])
        elif what == "begins":
            life["begins_with"] = event["state"]
        elif what == "step":
            life.setdefault("steps", []).append((event["number"], event["at"]))
        elif what == "exit":
            life.update(end=event["at"], exit=event["code"], signal=event["signal"], asked=event["asked"])
        elif what == "error" and "error" not in life:
            error = f"{event['kind']}: {event['message']}"
            life.update(error=error, failed_at=event["at"], planned=event["planned"])
    order = {task: number for number, task in enumerate(tasks)}
    return tuple(
        Life(task=task, incarnation=number, **{**life, "steps": tuple(life.get("steps", ()))})
        for (task, number), life in sorted(found.items(), key=lambda item: (order.get(item[0][0], 0), item[0][1]))
    )


def _saves(events: Sequence[Event]) -> Iterator[Save]:
    same = ("task", "incarnation", "kind", "path", "step", "bytes", "failed", "unfinished", "asynchronous")
    for event in events:
        if event["event"] in ("save", "restore"):
            yield Save(
                restores=event["event"] == "restore",
                begin=event["at"],
                end=event["at"] + event["seconds"],
                state=event.get("state"),  # a journal of an earlier Lockstep has none
                **{name: event[name] for name in same},
            )


def _marks(events: Sequence[Event]) -> Iterator[Mark]:
    """Points of saving and restoring at which a fault stopped the task. The gates at steps are steps too."""
    for event in events:
        if event["event"] == "gate" and (match := re.match(r"phase:(\w+)", event["gate"])):
            yield Mark(event["task"], event["incarnation"], event["at"], match[1])


def _conditions(events: Sequence[Event]) -> tuple[LinkCondition, ...]:
    found: list[LinkCondition] = []
    rules: dict[int, int] = {}
    for event in events:
        if event["event"] == "link_set":
            rules[event["rule"]] = len(found)
            found.append(LinkCondition(event["link"], event["at"], None))
        elif event["event"] == "link_removed" and event["rule"] in rules:
            place = rules.pop(event["rule"])
            found[place] = msgspec.structs.replace(found[place], end=event["at"])
    return tuple(found)
