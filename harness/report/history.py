"""Compares what happened in two runs of one plan: where their canonical histories part."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec

from harness.report.timeline import Timeline
from simulator.faults.history import canonical_history

# For each task, and for the plan, what happened in its own order.
History = dict[str, list[str]]
_PLAN, _NEW = "plan", "a new process"
_RESTARTED = re.compile(r", restarted=\{[^}]*\}")
# Triggers that do not wait for a point of the program.
_LOOSE = ("time", "log", "bytes", "connections")


class Deviation(msgspec.Struct, frozen=True):
    """Where two histories part.

    Attributes:
        lane: the task, or `plan`.
        after: the last entry that both have, `None` if they differ from the beginning.
        saved: what comes then in the saved run; `None` for its end.
        now: the same of the other run.
        hint: why that may be so, or `None`.
    """

    lane: str
    after: str | None
    saved: str | None
    now: str | None
    hint: str | None = None

    def __str__(self) -> str:
        where = f"{self.lane}, after {self.after}" if self.after else f"{self.lane}, at the beginning"
        told = f"{where}: the saved run has {self.saved or 'nothing more'}, this one {self.now or 'nothing more'}"
        return f"{told} ({self.hint})" if self.hint else told


def history(journal: Path | Iterable[Mapping[str, Any]]) -> History:
    """The canonical history of a run by task and plan, without what a scheduler decides in milliseconds.

    `simulator.faults.history.canonical_history` says what is in it. Two things of it are left out here, because a
    restart of one task and the restart of the whole job after it race each other: processes that ended before their
    first step, with what they restored, and the numbers of incarnations.

    Args:
        journal: the file `journal.jsonl` of a run, or its events.
    """
    lanes: History = {_PLAN: []}
    for line in canonical_history(journal):
        owner, _, entry = line.partition(": ")
        if owner.startswith("fault "):
            lanes[_PLAN].append(f"{owner.removeprefix('fault ')}: {_RESTARTED.sub('', entry)}")
        else:
            lanes.setdefault(owner, []).append(entry)
    return {lane: entries if lane == _PLAN else _processes(entries) for lane, entries in lanes.items()}


def _processes(entries: Iterable[str]) -> list[str]:
    """The entries of a task, with a mark between one process and the next that has any.

    A process may restore, and save, before its first step. If another follows it, the two are a race as above.
    """
    lives: list[list[str]] = [[]]
    for entry in entries:
        if entry.startswith("incarnation "):
            lives.append([])
        else:
            lives[-1].append(entry)
    last = len(lives) - 1
    told = [life for number, life in enumerate(lives) if number == last or any(map(_is_progress, life))]
    kept: list[str] = []
    for life in filter(None, told):
        kept += [_NEW, *life] if kept else life
    return kept


def _is_progress(entry: str) -> bool:
    return entry.startswith(("step ", "stood at "))


def first_difference(saved: History, now: History, timeline: Timeline) -> Deviation | None:
    """The first entry in which two histories differ; of several tasks, the one that parted earliest in its own order.

    Args:
        saved: of the run that was to be repeated.
        now: of its repetition.
        timeline: of the saved run, for a hint.
    """
    found = [
        (place, lane)
        for lane in dict.fromkeys((*saved, *now))
        if (place := _parting(saved.get(lane, []), now.get(lane, []))) is not None
    ]
    if not found:
        return None
    # The plan says in words what the tasks show in numbers.
    place, lane = min(found, key=lambda pair: (pair[1] != _PLAN, pair[0]))
    before, mine, other = saved.get(lane, [])[:place], saved.get(lane, []), now.get(lane, [])
    loose = [fault.id for fault in timeline.faults if fault.trigger.partition("=")[0] in _LOOSE]
    return Deviation(
        lane=lane,
        after=before[-1] if before else None,
        saved=mine[place] if place < len(mine) else None,
        now=other[place] if place < len(other) else None,
        hint=f"the trigger of {', '.join(loose)} is not reproducible to the step" if loose else None,
    )


def _parting(saved: list[str], now: list[str]) -> int | None:
    return next((place for place, pair in enumerate(zip_longest(saved, now)) if pair[0] != pair[1]), None)
