"""What each process of a task went on from, and what of its steps was lost: of a job that was started again."""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simulator.results import Incarnation, Saved


@dataclass(frozen=True)
class RestoredState:
    """What a process went on from.

    Attributes:
        path: that was restored.
        kind: by which call.
        task: that had saved it in this job, None if none had.
        incarnation: of that task.
        step: that this process had announced by then.
        unfinished: whether that process ended before the save had returned.
    """

    path: str
    kind: str
    task: str | None
    incarnation: int | None
    step: int | None
    unfinished: bool = False


@dataclass(frozen=True)
class ProcessHistory:
    """One process of a task.

    Attributes:
        number: of the incarnation.
        steps: that it announced.
        restored: what it went on from, None if nothing was restored.
        begins: how many steps of the job were behind it when it began, None if that is not known.
        lost: how many of its steps, or of those behind it, the next one did not go on from; None if that is not known,
            and for the last one 0.
        folders: into which it saved.
    """

    number: int
    steps: int
    restored: RestoredState | None
    begins: int | None
    lost: int | None
    folders: frozenset[str]


def histories_of(every: Mapping[str, Sequence[Incarnation]]) -> dict[str, tuple[ProcessHistory, ...]]:
    """By task what each of its processes went on from, and left to the next."""
    return {name: _history(name, every) for name in every}


def _history(name: str, every: Mapping[str, Sequence[Incarnation]]) -> tuple[ProcessHistory, ...]:
    begins: list[int | None] = []
    found = []
    for each in every[name]:
        restored = _restored(name, each, every)
        begin: int | None = 0
        if restored is not None:
            behind = begins[restored.incarnation] if restored.incarnation is not None else None
            begin = None if behind is None or restored.step is None else behind + restored.step
            if not each.number and begin is None:
                begin = 0  # what was there before the job counts for nothing
        begins.append(begin)
        found.append((each, restored, begin))
    chapters = []
    for index, (each, restored, begin) in enumerate(found):
        lost: int | None = 0
        if index + 1 < len(found):
            after = found[index + 1][2]
            lost = None if begin is None or after is None else begin + each.steps - after
        folders = frozenset(posixpath.dirname(save.path) for save in each.saves if not save.restores and save.path)
        chapters.append(ProcessHistory(each.number, each.steps, restored, begin, lost, folders))
    return tuple(chapters)


def _restored(name: str, process: Incarnation, every: Mapping[str, Sequence[Incarnation]]) -> RestoredState | None:
    """The last thing that it restored before its first step."""
    reads = [save for save in process.saves if save.restores and save.path and _is_done(save) and not save.step]
    if not reads:
        return None
    read = reads[-1]
    for number in range(process.number - 1, -1, -1):
        # A task's own save says most; else that of another one, which trains in step with it.
        for task in sorted(every, key=lambda other: other != name):
            if number < len(every[task]) and (save := _saved(every[task][number].saves, str(read.path))) is not None:
                return RestoredState(str(read.path), read.kind, task, number, save.step, save.unfinished)
    return RestoredState(str(read.path), read.kind, None, None, None)


def _saved(saves: Sequence[Saved], path: str) -> Saved | None:
    """The last one that was complete, or else one whose end nobody has heard: what can be restored was written."""
    found = [save for save in saves if not save.restores and not save.failed and save.path == path]
    return max(reversed(found), key=_is_done, default=None)


def _is_done(save: Saved) -> bool:
    return not (save.failed or save.unfinished)


def described(history: Sequence[ProcessHistory]) -> list[str]:
    """A line for each process, if there were several or one went on from something."""
    if len(history) < 2 and not any(each.restored for each in history):
        return []
    return [f"incarnation {each.number}: {_begun(each)}; {each.steps} steps{_lost(each, history)}" for each in history]


def _begun(chapter: ProcessHistory) -> str:
    restored = chapter.restored
    if restored is None:
        return "began from scratch" if chapter.number else "began"
    if restored.incarnation is None:
        return f"restored {restored.path}, which none of the processes of this job had saved"
    saved = f"saved at step {restored.step} of incarnation {restored.incarnation}"
    cut_off = ", which ended before the save had returned" if restored.unfinished else ""
    return f"restored {restored.path}, {saved}{cut_off}"


def _lost(chapter: ProcessHistory, history: Sequence[ProcessHistory]) -> str:
    if chapter is history[-1]:
        return ""
    if chapter.lost is None:
        return ", how many of them were lost is not known"
    return f", {chapter.lost} steps of the job lost"


def warnings_of(histories: Mapping[str, Sequence[ProcessHistory]]) -> list[str]:
    """What a reader should know of tasks that cannot go on from what they have saved."""
    found = []
    for name, history in histories.items():
        saving = [each for each in history if each.folders]
        for one, other in itertools.pairwise(saving):
            if not one.folders & other.folders and other.restored is None:
                found.append(
                    f"{name} saved into {_listed(one.folders)} in incarnation {one.number} and into "
                    f"{_listed(other.folders)} in incarnation {other.number}: a directory that is new each time leaves "
                    "a restarted program nothing to go on from; give it one that stays"
                )
                break
    return found


def _listed(folders: frozenset[str]) -> str:
    return ", ".join(sorted(folder or "." for folder in folders))
