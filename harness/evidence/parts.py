"""What the clients of a run recorded, in parts: one for each start of the job, read from the files that they left.

A run in which nobody was started again is one part. One that `verify(interrupt_at=)` killed has two, each made by a
cluster of its own; in one under faults every incarnation of a task leaves a trace of its own.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from harness.evidence.corrupt_values import CorruptValue, read_corrupt_values
from harness.evidence.links import Links, read_links
from harness.evidence.loaded_names import names_before, renamed
from harness.evidence.restart_files import FOUND, FoundFiles
from harness.evidence.saves import Process, Saves, last_operations, read_saves
from harness.evidence.steps import SAME, Renaming, evidence_folder, segment_of
from harness.evidence.trace import ClientTrace, NoHeader, RunTrace, merge, read_client
from harness.evidence.witness_values import with_steps, without_lead

TRACES = "traces"
INTERRUPTED = "interrupted"
_KILLED = "killed.json"
_OF_TENSORBOARD = "events.out.tfevents.*"
"""Files that nothing is restored from."""
_TICK = 0.02
"""Seconds: the times of files are those of the kernel's last tick."""


@dataclass(frozen=True)
class Part:
    """What the clients recorded between two starts of the job.

    `common` is the number of steps that all clients recorded, 0 if one of them recorded nothing; `furthest` is the most
    that any of them did. `struck` are the numbers that faults have changed in these processes, and `evidence` is where
    they have left what their steps had. `names` are those that its variables had in the first part.
    """

    trace: RunTrace
    common: int
    furthest: int
    struck: tuple[CorruptValue, ...] = ()
    evidence: tuple[str, ...] = ()
    names: Renaming = SAME


@dataclass(frozen=True)
class Parts:
    """A run in parts.

    Attributes:
        last: each client's last incarnation.
        earlier: those before in which steps were recorded.
        saved: the files of `record.directory` that were there for the last incarnation, as far as they had been written
            before the last step that was recorded until then.
        must_resume: whether the last part has to go on where something was saved, because that is what the run was to
            show; otherwise it may begin anew if nothing had been saved.
        links: what the links between the tasks carried, None if there are none.
        struck: the numbers that faults have changed in the last incarnations.
        saves: what the run has saved in `record.directory` and restored from it, None where that was not noted.
        later: of an interrupted script, the files that it had written at its end.
        evidence: where the last incarnations have left what their steps had.
        names: those that its variables had in the first part.
    """

    last: RunTrace
    earlier: tuple[Part, ...] = ()
    saved: tuple[str, ...] = ()
    must_resume: bool = False
    links: Links | None = None
    struck: tuple[CorruptValue, ...] = ()
    saves: Saves | None = None
    later: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    names: Renaming = SAME


class Killed(msgspec.Struct, frozen=True):
    """The step after which a run was killed, and the files that `record.directory` held then.

    Of a script they are those that it had written; `later` are those that it had written at its end.
    """

    at: int
    saved: tuple[str, ...]
    later: tuple[str, ...] = ()

    def leave(self, directory: Path) -> None:
        """Note it beside the traces of the part that was killed."""
        (directory / INTERRUPTED / _KILLED).write_bytes(msgspec.json.encode(self))


@dataclass(frozen=True)
class _Incarnation:
    """What one process recorded, when it began (the first one: at the start), what it found, what struck it."""

    number: int
    trace: ClientTrace
    began: float
    files: dict[str, float]
    struck: tuple[CorruptValue, ...]
    evidence: str


def read_parts(directory: Path) -> Parts:
    """Read what every incarnation of every client of a run has left in its directory.

    Variables that were seen have the names of the first part.

    Raises:
        ValueError: a client has left nothing.
    """
    parts = _read_parts(directory)
    if not parts.earlier:
        return parts
    first, *others = parts.earlier
    names = [names_before(each.trace, first.trace) for each in others]
    last = names_before(parts.last, first.trace)
    named = (replace(each, trace=renamed(each.trace, to), names=to) for each, to in zip(others, names, strict=True))
    return replace(parts, earlier=(first, *named), last=renamed(parts.last, last), names=last)


def _read_parts(directory: Path) -> Parts:
    traces = directory / TRACES
    numbered = [path for path in traces.iterdir() if path.name.isdigit()] if traces.exists() else []
    folders = [traces, *sorted(numbered, key=lambda path: int(path.name))]
    names = sorted({file.stem for folder in folders for file in folder.glob("*.trace")})
    struck = read_corrupt_values(directory)
    killed = (directory / INTERRUPTED / _KILLED).exists()
    every = {name: [_read(folder, name, struck, again=killed) for folder in folders] for name in names}
    read = {name: [each for each in found if each is not None] for name, found in every.items()}
    by_client = {name: found for name, found in read.items() if found}
    if not by_client:
        raise ValueError(f"{traces} holds no traces")
    last = merge([found[-1].trace for found in by_client.values()])
    if len(by_client) != last.header.clients:
        raise ValueError(f"{traces} holds traces of {len(by_client)} clients of {last.header.clients}")
    if killed:
        return _interrupted(directory, last)
    before = [found for all_of_one in by_client.values() for found in all_of_one[:-1] if found.trace.steps]
    first = next(found for found in by_client.values() if found[-1].trace is last.clients[0])
    earlier = tuple(_part(group, len(by_client)) for group in _together(before))
    now = _struck(found[-1] for found in by_client.values())
    saves = read_saves(traces, _files(by_client.values()))
    saved = _saved(first, last_operations(traces, first[-1].began))
    if last.header.at_once:
        saved = _saved_by_script(saves, (0, last.header.task, first[-1].number), first[-1].began, saved)
    left = tuple(found[-1].evidence for found in by_client.values())
    return Parts(last, earlier, saved, links=read_links(directory), struck=now, saves=saves, evidence=left)


def _interrupted(directory: Path, last: RunTrace) -> Parts:
    folder = directory / INTERRUPTED
    killed = msgspec.json.decode((folder / _KILLED).read_bytes(), type=Killed)
    before = merge([with_steps(read_client(file)) for file in sorted((folder / TRACES).glob("*.trace"))])
    saves = read_saves(directory / TRACES, {(1, client.header.task, 0): killed.saved for client in last.clients})
    saved = killed.saved
    if last.header.at_once:
        saved = _saved_by_script(saves, (1, last.header.task, 0), -math.inf, saved)
    part = Part(before, killed.at, killed.at, evidence=segment_of(folder / TRACES).folders)
    left = segment_of(directory / TRACES).folders
    return Parts(last, (part,), saved, True, read_links(directory), saves=saves, later=killed.later, evidence=left)


def _saved_by_script(saves: Saves | None, process: Process, began: float, files: tuple[str, ...]) -> tuple[str, ...]:
    """What had been saved when a process of a script was started: by TensorFlow or Keras, if it ever saves so.

    Files alone say little there: they may be logs.
    """
    events = [] if saves is None else [event for event in saves.events if not event.restores]
    if not events:
        return files
    before = [
        event
        for event in events
        if event.complete and (event.cluster < process[0] or (event.cluster == process[0] and event.ended < began))
    ]
    return tuple(dict.fromkeys(event.path for event in before))


def _files(by_client: Iterable[Sequence[_Incarnation]]) -> dict[Process, tuple[str, ...]]:
    """By process what it has found."""
    return {(0, found.trace.header.task, found.number): tuple(found.files) for each in by_client for found in each}


def _read(folder: Path, stem: str, struck: Sequence[CorruptValue], *, again: bool) -> _Incarnation | None:
    """The trace of one process, which may have been started again; None if it died before it had begun one."""
    number = int(folder.name) if folder.name.isdigit() else 0
    try:
        trace = read_client(folder / f"{stem}.trace")
    except (FileNotFoundError, NoHeader):
        return None
    trace = with_steps(without_lead(trace) if again or number else trace)
    note = folder / f"{stem}.{FOUND}"
    found = msgspec.json.decode(note.read_bytes(), type=FoundFiles) if note.exists() else FoundFiles(0.0, {})
    process = (trace.header.task, number)
    own = tuple(each for each in struck if (each.task, each.incarnation) == process)
    left = str(evidence_folder(folder / f"{stem}.trace"))
    return _Incarnation(process[1], trace, found.began, found.files, own, left)


def _struck(incarnations: Iterable[_Incarnation]) -> tuple[CorruptValue, ...]:
    return tuple(each for found in incarnations for each in found.struck)


def _together(before: Sequence[_Incarnation]) -> list[list[_Incarnation]]:
    """The processes that trained with each other: all of them had begun when the first of them recorded a step.

    Numbers of incarnations do not say it: a task that is started again by itself may find nobody to train with.
    """
    groups: list[list[_Incarnation]] = []
    for found in sorted(before, key=lambda found: found.trace.steps[0].at):
        tasks = {other.trace.header.task for other in groups[-1]} if groups else set()
        if groups and found.trace.header.task not in tasks and found.began < groups[-1][0].trace.steps[0].at:
            groups[-1].append(found)
        else:
            groups.append([found])
    return groups


def _part(group: Sequence[_Incarnation], clients: int) -> Part:
    counts = [len(found.trace.steps) for found in group]
    common = min(counts) if len(group) == clients else 0
    left = tuple(found.evidence for found in group)
    return Part(merge([found.trace for found in group]), common, max(counts), _struck(group), left)


def _saved(incarnations: Sequence[_Incarnation], operations: Mapping[str, float]) -> tuple[str, ...]:
    *earlier, last = incarnations

    def is_saved(name: str, written: float) -> bool:
        # The time of a file is that of the kernel's last tick, which may be before the step that it was written after.
        at = max(written, operations.get(name, written))
        writer = next((found for found in reversed(earlier) if found.began <= at), None)
        if writer is None or not writer.trace.steps or fnmatch.fnmatch(Path(name).name, _OF_TENSORBOARD):
            return False
        # What a process wrote after its last recorded step may be the half of a save, also when others have come since;
        # and before its first one it had nothing of its own to save, so that this is a configuration, or names it.
        first = writer.trace.steps[0].at - (0.0 if name in operations else _TICK)
        return first <= at < writer.trace.steps[-1].at

    return tuple(name for name, at in last.files.items() if is_saved(name, at))
