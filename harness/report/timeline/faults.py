"""When each fault struck, was seen by others, and was over, from the events of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from harness.report.timeline.machines import maybe_earlier
from harness.report.timeline.model import FaultRow, Life, MachineRow, Sighting
from simulator.faults.protocol import gate_of_point

Event = Mapping[str, Any]


def fault_rows(
    plan: Sequence[Mapping[str, Any]],
    events: Sequence[Event],
    lives: Sequence[Life],
    machines: Sequence[MachineRow] = (),
) -> tuple[FaultRow, ...]:
    """The faults of a plan, and those that only the journal knows.

    Args:
        plan: tables of the expanded plan.
        events: with times since the start of the run, `t` written and `at` happened.
        lives: every process.
        machines: where they were.
    """
    tables = {table["id"]: table for table in plan}
    for event in events:
        if event["event"] in ("fired", "undone") and event["fault"] not in tables:
            tables[event["fault"]] = {"id": event["fault"], "kind": event["kind"], "task": event["tasks"]}
    rows = [_row(table, events) for table in tables.values()]
    seen = _attributed(rows, lives, machines)
    return tuple(
        msgspec.structs.replace(row, detected=seen.get(row.id), recovered=_recovery(row, lives)) for row in rows
    )


def _row(table: Mapping[str, Any], events: Sequence[Event]) -> FaultRow:
    mine = {event["event"]: event for event in events if event.get("fault") == table["id"]}
    fired, undone = mine.get("fired"), mine.get("undone")
    problem = None if undone is None else undone["problem"]
    return FaultRow(
        id=table["id"],
        kind=table["kind"],
        tasks=tuple(table.get("task", ())),
        trigger=_trigger(table) if fired is None else fired["trigger"],
        struck=_struck(table, fired or undone, events),
        fired=None if fired is None else fired["at"],
        undone=None if undone is None else undone["at"],
        effect={} if fired is None else fired["effect"],
        undo_effect={} if undone is None else undone["effect"],
        problem="did not fire: its trigger never came" if fired is None and undone is None else problem,
    )


def _trigger(table: Mapping[str, Any]) -> str:
    """As the journal says it of a fault that has fired."""
    name = next((key for key in ("step", "at", "bytes", "connections", "log", "time") if key in table), None)
    told = "" if name is None else f"{name}={table[name]}"
    told += f" incarnation={table['incarnation']}" if "incarnation" in table else ""
    return f"{told} of {', '.join(table['of'])}" if "of" in table else told


def _struck(table: Mapping[str, Any], proof: Event | None, events: Sequence[Event]) -> float | None:
    """When its tasks stood at its gate, or a process or link shows that it was applied, or else when it was proved."""
    if proof is None:
        return None
    before = [event for event in events if event["t"] <= proof["t"]]
    gate = gate_of_point(table["at"]) if "at" in table else f"step:{table.get('step')}"
    if "incarnation" in table:
        gate += f"@{table['incarnation']}"
    stood = {event["task"]: event["at"] for event in before if event["event"] == "gate" and event["gate"] == gate}
    waited = [stood[task] for task in table.get("of", ()) if task in stood]
    if waited:
        return float(max(waited))
    ended = proof["effect"].get("ended", {})
    exits = {event["task"]: event["at"] for event in before if event["event"] == "exit" and event["task"] in ended}
    if exits:
        return float(min(exits.values()))
    link = f"src={table.get('src')},dst={table.get('dst')},"
    shown = [
        event["at"]
        for event in before
        if event["event"] in ("link_set", "link_fired") and event["link"].startswith(link)
    ]
    return float(shown[-1] if shown else proof["at"])


def _attributed(rows: Iterable[FaultRow], lives: Sequence[Life], machines: Sequence[MachineRow]) -> dict[str, Sighting]:
    """The first failure that each fault caused in somebody else.

    A failure has one cause only. Of the faults that struck before it, one that has ended a process comes first, then
    one that is in force, then the latest.
    """
    found: dict[str, Sighting] = {}
    failed = [(life.failed_at, life) for life in lives if life.failed_at is not None and not life.planned]
    for at, life in sorted(failed, key=lambda pair: pair[0]):
        suspects = [row for row in rows if _may_have_broken(row, life)]
        if suspects:
            cause = max(suspects, key=lambda row: _suspicion(row, at, lives))
            if life.task not in cause.tasks:  # what a fault does to its own task is its effect
                others = [other for _, other in failed if other.task not in cause.tasks]
                tied = maybe_earlier(at, life, others, machines)
                found.setdefault(cause.id, Sighting(life.task, at, (life.error or "").partition("\n")[0], tied))
    return found


def _may_have_broken(row: FaultRow, life: Life) -> bool:
    """Whether the process lived when the fault struck, and failed later."""
    return row.struck is not None and life.begin <= row.struck <= (life.failed_at or 0.0)


def _suspicion(row: FaultRow, at: float, lives: Sequence[Life]) -> tuple[bool, bool, float]:
    struck = row.struck or 0.0
    in_force = row.undone is None or at <= row.undone
    return bool(ended_by(row, lives)), in_force, struck


def ended_by(row: FaultRow, lives: Sequence[Life]) -> list[Life]:
    """The processes of its tasks that ended between its strike and its proof; a crash loop ends several of one task."""
    until = row.fired if row.fired is not None else row.undone
    if row.struck is None or until is None:
        return []
    return [
        life for life in lives if life.task in row.tasks and life.end is not None and row.struck <= life.end <= until
    ]


def _recovery(row: FaultRow, lives: Sequence[Life]) -> Sighting | None:
    if row.struck is None:
        return None
    dead = ended_by(row, lives)
    last = {life.task: life.incarnation for life in dead}  # in order, so the last one of each task stays
    if last:
        after = row.struck
        again = [life for life in lives if life.task in last and life.incarnation > last[life.task]]
        if again and not any(life.steps for life in again):
            # Servers announce no steps; the coordinator's show that the cluster is whole again.
            after = min(life.begin for life in again)
            again = [life for life in lives if not any(mine.steps for mine in lives if mine.task in last)]
    elif row.undone is not None:
        after, again = row.undone, [life for life in lives if life.task in row.tasks or not row.tasks]
        again = again if any(life.steps for life in again) else list(lives)
    else:
        return None
    steps = [(at, life, number) for life in again for number, at in life.steps if at >= after]
    if not steps:
        return None if any(life.steps for life in lives) else _return(last, lives)
    at, life, number = min(steps, key=lambda step: step[0])
    return Sighting(life.task, at, f"step {number}{_which(life)}")


def _return(last: Mapping[str, int], lives: Sequence[Life]) -> Sighting | None:
    """When all of these tasks were there again, each with the number of its last dead process; for want of steps."""
    back = [
        next((life for life in lives if life.task == task and life.incarnation > dead), None)
        for task, dead in last.items()
    ]
    there = [life for life in back if life is not None]
    if not there or len(there) < len(back):
        return None
    latest = max(there, key=lambda life: life.begin)
    return Sighting(latest.task, latest.begin, f"started again{_which(latest)}")


def _which(life: Life) -> str:
    return f", incarnation {life.incarnation}" if life.incarnation else ""
