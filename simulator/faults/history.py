"""What happened in a run, without times and process ids: two runs of one plan with one seed have the same history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from simulator.faults.kinds import all_kinds
from simulator.journal import read_journal


def canonical_history(journal: Path | Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """The step, fault and checkpoint events of a journal, one line each, in an order that does not depend on timing.

    First each task, in order of their names: its incarnations with the steps that each announced, what it saved and
    restored, and the gates (such as `step:20` or `phase:after_save:1`) at which it stood. Then each fault, in order of
    their ids: its trigger, what it was proved by, and its undo. Between tasks there is no order in time, for there is
    none that a second run must repeat.

    How many more steps the others announce after one task was struck is a race, unless the fault waits for all of them
    (`of = "worker:*"`) or the training waits for each other in every step. The same is true of their saves. One that
    the end of a process has cut off is left out, since a moment later it would have been complete, and so is the end
    of an asynchronous one, unless that failed: it then stands at the end of its incarnation.

    Of an absolute path only the last part counts: two runs may keep their checkpoints in different places.

    Args:
        journal: the file `journal.jsonl` of a run, or its events.
    """
    tasks: dict[str, list[str]] = {}
    late: dict[str, list[str]] = {}
    faults: dict[str, list[str]] = {}
    # The same event in one incarnation after the other is told apart by the line of its start.
    for event in read_journal(journal) if isinstance(journal, Path) else journal:
        kind = event["event"]
        if kind == "hello":
            entries = tasks.setdefault(event["task"], [])
            entries += [*late.pop(event["task"], ()), f"incarnation {event['incarnation']}"]
        elif kind == "step":
            tasks.setdefault(event["task"], []).append(f"step {event['number']}")
        elif kind == "gate":
            tasks.setdefault(event["task"], []).append(f"stood at {event['gate']}")
        elif kind in ("save", "restore") and not event["unfinished"]:
            behind = event["asynchronous"] == "thread"
            if event["failed"] or not behind:
                (late if behind else tasks).setdefault(event["task"], []).append(_save(event))
        elif kind == "fired":
            faults.setdefault(event["fault"], []).append(f"fired at {event['trigger']}{_effect(event)}")
        elif kind == "undone":
            faults.setdefault(event["fault"], []).append(f"undone{_effect(event)}")
    return (
        *(
            f"{task}: {line}"
            for task in sorted({*tasks, *late})
            for line in (*tasks.get(task, ()), *late.get(task, ()))
        ),
        *(f"fault {fault}: {line}" for fault in sorted(faults) for line in faults[fault]),
    )


def _save(event: Mapping[str, Any]) -> str:
    restores, path, part = event["event"] == "restore", event["path"], event["asynchronous"]
    what = path or ("nothing" if restores else "a checkpoint")
    if what.startswith("/") or "://" in what:
        what = PurePosixPath(what).name
    if event["failed"]:
        verb = "restore" if restores else "save in the background" if part == "thread" else "save"
        return f"failed to {verb} {what} by {event['kind']}, {event['failed']}"
    verb = "restored" if restores else "began to save" if part == "call" else "saved"
    return f"{verb} {what} by {event['kind']}"


def _effect(event: Mapping[str, Any]) -> str:
    """What of a fault's measured effect does not depend on how fast the machine is."""
    kind, effect = all_kinds().get(event["kind"]), event["effect"]
    words = [f"{key}={_text(effect[key])}" for key in (kind.repeats if kind else ()) if key in effect]
    return ", " + ", ".join(words) if words else ""


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_text(value[key])}" for key in sorted(value)) + "}"
    return str(value)
