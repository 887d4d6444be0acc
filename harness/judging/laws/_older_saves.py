"""From what a run has saved and restored: where it went on from an older save than it could have.

A save counts as newer than what was restored if it is of the same series, which is a path but for its numbers, and
holds a later step. How far a save had come is counted along the run: the steps that its process had recorded, and those
behind what that process itself had restored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from harness.evidence.saves import Process, SaveEvent, Saves

_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class OlderRestore:
    """Processes that were started together and restored an older save: what, and what they could have restored."""

    tasks: tuple[str, ...]
    restored: str
    step: int
    newer: str
    newer_step: int


@dataclass(frozen=True)
class _Save:
    event: SaveEvent
    step: int

    @property
    def series(self) -> str:
        return _NUMBER.sub("#", self.event.path)


@dataclass
class _History:
    """The saves and restores of a run, with the step that each save had reached, None where that is not known."""

    saves: Saves
    reached: dict[int, int | None] = field(default_factory=dict)
    behind: dict[Process, int | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        again: set[Process] = set()
        for number, event in enumerate(self.saves.events):
            if event.restores:
                # One that goes back within its run has saves whose steps nobody knows.
                again |= {event.process} if event.step else set()
                continue
            if event.process not in self.behind:
                self.behind[event.process] = self._begun(event.process)
            behind = self.behind[event.process]
            self.reached[number] = None if behind is None or event.process in again else behind + event.step

    def restores(self, process: Process) -> list[SaveEvent]:
        """What a process restored before its first step."""
        return [event for event in self.saves.events if event.restores and event.process == process and not event.step]

    def _begun(self, process: Process) -> int | None:
        """The steps behind a process when it began; None where what it restored is not known."""
        done = [event for event in self.restores(process) if event.complete]
        if not done:
            return 0 if process[0] == process[2] == 0 else None
        found = [self.source(event) for event in done]
        return None if None in found else max(save.step for save in found if save is not None)

    def before(self, process: Process) -> Iterator[tuple[SaveEvent, int | None]]:
        """The saves that had ended when a process was started, or never ended, each with the step it had reached."""
        start = self.saves.began.get(process, 0.0)
        for number, event in enumerate(self.saves.events):
            earlier = event.cluster < process[0] or (event.process != process and event.at <= start)
            if not event.restores and earlier:
                cut = event.cluster == process[0] and event.ended > start
                yield event, None if cut else self.reached.get(number)

    def source(self, restore: SaveEvent) -> _Save | None:
        """The save that a restore has read: the last complete one with its path."""
        found = [each for each in self.before(restore.process) if each[0].path == restore.path and each[0].complete]
        return None if not found or found[-1][1] is None else _Save(found[-1][0], found[-1][1])

    def offered(self, process: Process) -> list[_Save]:
        """The saves that a process could have restored for certain, and has not tried to in vain."""
        latest = {event.path: (event, step) for event, step in self.before(process)}
        vain = {event.path for event in self.restores(process) if not event.complete}
        files = self.saves.files.get(process, ())
        return [
            _Save(event, step)
            for path, (event, step) in latest.items()
            if event.sound and step is not None and path not in vain and _there(path, files)
        ]


def _there(path: str, files: Sequence[str]) -> bool:
    """Whether a save's file is there, or files of a checkpoint or in a directory of that name."""
    return any(name == path or name.startswith((f"{path}.", f"{path}/")) for name in files)


def older_restores(saves: Saves) -> tuple[int, list[OlderRestore]]:
    """How many starts of the job restored what is known to have been saved, and those that restored an older save."""
    history = _History(saves)
    starts: dict[tuple[int, int], list[Process]] = {}
    for process in dict.fromkeys(event.process for event in saves.events if event.restores and not event.step):
        if process[0] or process[2]:
            starts.setdefault((process[0], process[2]), []).append(process)
    judged, found = 0, []
    for processes in starts.values():
        done = [event for process in processes for event in history.restores(process) if event.complete]
        sources = [history.source(event) for event in done]
        known = [save for save in sources if save is not None]
        if not known or len(known) < len(sources):
            continue
        judged += 1
        older = _older(processes, known, [save for process in processes for save in history.offered(process)])
        found += [] if older is None else [older]
    return judged, found


def _older(processes: Sequence[Process], restored: Sequence[_Save], offered: Sequence[_Save]) -> OlderRestore | None:
    """All series that were restored have a later step in common, which every one of these saves is older than."""
    series = {save.series for save in restored}
    common = set.intersection(*({save.step for save in offered if save.series == one} for one in series))
    latest = max(restored, key=lambda save: save.step)
    if not common or max(common) <= latest.step:
        return None
    newer = next(save for save in offered if save.step == max(common) and save.series == latest.series)
    tasks = tuple(process[1] for process in processes)
    return OlderRestore(tasks, latest.event.path, latest.step, newer.event.path, newer.step)
