"""What the tasks of a run have saved in `record.directory` and restored from it: read from the run's journals."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from simulator.journal import read_journal

JOURNAL = "journal.jsonl"
"""The copy of a run's journal beside its traces."""

_FILE = "saves.json"
_DAMAGES = "torn_checkpoint"

Process = tuple[int, str, int]
"""Which cluster of the run (0, or 1 for the one that resumed an interrupted run), the task, and its incarnation."""


class SaveEvent(msgspec.Struct, frozen=True):
    """One save or restore.

    Attributes:
        cluster: as in `Process`, like `task` and `incarnation`.
        restores: whether it read.
        path: relative to `record.directory`.
        step: the steps that this process had recorded when it began.
        at: when it began, in seconds of CLOCK_MONOTONIC.
        ended: when it was over.
        complete: whether it came to its end without an exception.
        sound: whether it is also certain that the whole of it can be read: no fault of the plan has damaged a
            checkpoint afterwards, and what a thread writes in the background has been followed by the thread's next.
    """

    cluster: int
    task: str
    incarnation: int
    restores: bool
    path: str
    step: int
    at: float
    ended: float
    complete: bool
    sound: bool

    @property
    def process(self) -> Process:
        """Whose it is."""
        return self.cluster, self.task, self.incarnation


@dataclass(frozen=True)
class Saves:
    """All of them in the order of their beginnings, and by `Process` when it was started, and the files it found.

    `files` are those of `record.directory`; a process of which they are not known has none there.
    """

    events: tuple[SaveEvent, ...]
    began: dict[Process, float]
    files: dict[Process, tuple[str, ...]]


class _Noted(msgspec.Struct, frozen=True):
    events: tuple[SaveEvent, ...]
    began: tuple[tuple[Process, float], ...]


@dataclass
class _Reading:
    """A journal, as far as it was read."""

    events: list[SaveEvent] = field(default_factory=list)
    began: dict[Process, float] = field(default_factory=dict)
    # Of saves in the background by process: the steps of the calls, and the places in `events` of what was written.
    called: dict[Process, list[int]] = field(default_factory=dict)
    written: dict[Process, list[int]] = field(default_factory=dict)


def last_operations(traces: Path, until: float) -> dict[str, float]:
    """When what each file of `record.directory` holds was about to be written, as far as that was before a time.

    That is known of a run whose plan asks for points; its journal is then beside the traces. What a process was about
    to rename when it died it has not renamed.
    """
    journal, found = traces / JOURNAL, dict[str, float]()
    renaming: dict[tuple[str, int], tuple[str, str]] = {}
    for event in read_journal(journal) if journal.exists() else ():
        if event["event"] not in ("point", "step") or event["at"] >= until:
            continue
        process = (event["task"], event["incarnation"])
        if (names := renaming.pop(process, None)) is not None:
            new, old = names
            found[new] = found.pop(old, -math.inf)
        verb, *files = event.get("what") or ("",)
        if verb == "rename" and len(files) > 1:
            renaming[process] = (files[0], files[1])
        elif verb == "write":
            found[files[0]] = event["at"]
    return found


def last_journal(runs: Path) -> Path:
    """The journal of a cluster's last run, which a start on other ports may have followed."""
    return max(runs.glob("*/journal.jsonl"), key=lambda file: int(file.parent.name))


def note_saves(traces: Path, kept: Path | None, *journals: Path) -> None:
    """Note beside the traces what the clusters of a run, the earlier first, have saved in `kept` and restored.

    Args:
        traces: of the run.
        kept: `record.directory`; None of a script, which saves where it likes: its paths are absolute.
        journals: of the clusters.
    """
    read = _Reading()
    below = "" if kept is None else os.path.abspath(kept)  # noqa: PTH100 - links stay as they are
    for cluster, journal in enumerate(journals):
        if journal.exists():
            _read(read, cluster, read_journal(journal), below)
    noted = _Noted(tuple(sorted(read.events, key=lambda event: event.at)), tuple(read.began.items()))
    (traces / _FILE).write_bytes(msgspec.json.encode(noted))


def read_saves(traces: Path, files: dict[Process, tuple[str, ...]]) -> Saves | None:
    """What `note_saves` has left; None for a run that was not to be disturbed, and for one of an earlier Lockstep."""
    file = traces / _FILE
    if not file.exists():
        return None
    noted = msgspec.json.decode(file.read_bytes(), type=_Noted)
    return Saves(noted.events, dict(noted.began), files)


def _read(read: _Reading, cluster: int, journal: Iterable[dict[str, Any]], kept: str) -> None:
    first = len(read.events)
    for event in journal:
        kind = event["event"]
        if kind == "restart":
            read.began[cluster, event["task"], event["incarnation"]] = event["t"]
        elif kind == "fired" and event["kind"] == _DAMAGES:
            _unsound(read, range(first, len(read.events)))
        elif kind in ("save", "restore") and (path := _below(event["path"], kept)) is not None:
            _add(read, cluster, event, path)
    for process, places in read.written.items():
        if process[0] == cluster:
            _unsound(read, places[-1:])


def _add(read: _Reading, cluster: int, event: dict[str, Any], path: str) -> None:
    process: Process = (cluster, event["task"], event["incarnation"])
    step, complete = event["step"], event["failed"] is None and not event["unfinished"]
    if event["asynchronous"] == "call":
        read.called.setdefault(process, []).append(step)
        return  # it has copied the variables, and written nothing
    if event["asynchronous"] == "thread":
        places = read.written.setdefault(process, [])
        called = read.called.get(process, [])
        step = called[len(places)] if len(places) < len(called) else step
        places.append(len(read.events))
    ended = event["at"] + event["seconds"]
    restores = event["event"] == "restore"
    read.events.append(SaveEvent(*process, restores, path, step, event["at"], ended, complete, complete))


def _unsound(read: _Reading, places: Sequence[int]) -> None:
    for place in places:
        read.events[place] = msgspec.structs.replace(read.events[place], sound=False)


def _below(path: str | None, kept: str) -> str | None:
    """The path from `record.directory`, of which a task says it from its working directory, which is the parent's."""
    if path is None:
        return None
    whole = os.path.abspath(path)  # noqa: PTH100 - links stay as they are
    if not kept:
        return whole
    return os.path.relpath(whole, kept) if whole.startswith(kept + os.sep) else None
