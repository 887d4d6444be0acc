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
        state: a digest of what that process trained by then, None if that is not known.
    """

    path: str
    kind: str
    task: str | None
    incarnation: int | None
    step: int | None
    unfinished: bool = False
    state: int | None = None


@dataclass(frozen=True)
class ProcessHistory:
    """One process of a task.

    Attributes:
        number: of the incarnation.
        steps: that it announced.
        restored: what it restored last before its first step, None if nothing was.
        begins: how many steps of the job were behind it when it began, None if that is not known.
        lost: how many of its steps, or of those behind it, the next one did not go on from; None if that is not known,
            and for the last one 0.
        folders: into which it saved.
        failed: the class of the exception with which its last restore ended, if it made no step after that.
    """

    number: int
    steps: int
    restored: RestoredState | None
    begins: int | None
    lost: int | None
    folders: frozenset[str]
    failed: str | None = None


_ON_ITS_OWN = "no restore of TensorFlow's or Keras's was seen"


def histories_of(every: Mapping[str, Sequence[Incarnation]]) -> dict[str, tuple[ProcessHistory, ...]]:
    """By task what each of its processes went on from, and left to the next."""
    return {name: _history(name, every) for name in every}


def _history(name: str, every: Mapping[str, Sequence[Incarnation]]) -> tuple[ProcessHistory, ...]:
    begins: list[int | None] = []
    for each in every[name]:
        begins.append(_begin(name, each, every, begins))
    chapters = []
    for index, (each, begin) in enumerate(zip(every[name], begins, strict=True)):
        folders = frozenset(posixpath.dirname(save.path) for save in each.saves if not save.restores and save.path)
        reads = [save for save in each.saves if save.restores]
        failed = reads[-1].failed if reads and not each.steps else None
        lost = _steps_lost(every[name][index:], begins[index:])
        told = (_restored(name, each, every), begin, lost, folders, failed)
        chapters.append(ProcessHistory(each.number, each.steps, *told))
    return tuple(chapters)


def _steps_lost(processes: Sequence[Incarnation], begins: Sequence[int | None]) -> int | None:
    """How many steps of the first of these the next one that made any did not go on from."""
    made, begin = processes[0].steps, begins[0]
    if not made or len(processes) == 1:
        return 0
    after = next((at for each, at in zip(processes[1:], begins[1:], strict=True) if each.steps), None)
    return None if begin is None or after is None else begin + made - after


def _begin(
    name: str, process: Incarnation, every: Mapping[str, Sequence[Incarnation]], begins: Sequence[int | None]
) -> int | None:
    """How many steps of the job were behind a process, by what it trained when it began, or else by what it restored.

    Args:
        name: of its task.
        process: one of them.
        every: by task all of its processes.
        begins: of those of its task before it.
    """
    if not process.number:
        return 0  # what was there before the job counts for nothing
    if process.begins_with is not None and (found := _with_state(name, process, every)) is not None:
        number, step = found
        behind = begins[number]
        return None if behind is None else behind + step
    restored = _restored(name, process, every)
    if restored is not None:
        behind = None if restored.incarnation is None else begins[restored.incarnation]
        # What was restored is not what it began with, where both are known.
        is_other = process.begins_with is not None and restored.state is not None
        return None if behind is None or restored.step is None or is_other else behind + restored.step
    # It looked, and there was nothing; of a program that saves in a way of its own nobody knows.
    return 0 if process.begins_with is None and any(save.restores for save in process.saves) else None


def _with_state(name: str, process: Incarnation, every: Mapping[str, Sequence[Incarnation]]) -> tuple[int, int] | None:
    """The last process before this one that trained the same, at its begin or at a save, and at which step."""
    for number in range(process.number - 1, -1, -1):
        for task in _own_first(name, every):
            if number >= len(every[task]):
                continue
            earlier = every[task][number]
            saves = [save.step for save in earlier.saves if save.state == process.begins_with]
            if saves:
                return number, saves[-1]
            if earlier.begins_with == process.begins_with:
                return number, 0
    return None


def _own_first(name: str, every: Mapping[str, Sequence[Incarnation]]) -> list[str]:
    """A task's own save says most; else that of another one, which trains in step with it."""
    return sorted(every, key=lambda other: other != name)


def _restored(name: str, process: Incarnation, every: Mapping[str, Sequence[Incarnation]]) -> RestoredState | None:
    """The last thing that it restored before its first step."""
    reads = [save for save in process.saves if save.restores and save.path and _is_done(save) and not save.step]
    if not reads:
        return None
    read = reads[-1]
    for number in range(process.number - 1, -1, -1):
        for task in _own_first(name, every):
            if number < len(every[task]) and (save := _saved(every[task][number].saves, str(read.path))) is not None:
                return RestoredState(str(read.path), read.kind, task, number, save.step, save.unfinished, save.state)
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
    return [
        f"incarnation {each.number}: {_begun(each)}; {_count(each.steps)}{_lost(each, history)}" for each in history
    ]


def _begun(chapter: ProcessHistory) -> str:
    restored = chapter.restored
    if chapter.failed is not None:
        return f"its restore failed with {chapter.failed}"
    if restored is None:
        return "began" if not chapter.number else "began from scratch" if chapter.begins == 0 else _ON_ITS_OWN
    if restored.incarnation is None:
        return f"restored {restored.path}, which none of the processes of this job had saved"
    saved = f"saved at step {restored.step} of incarnation {restored.incarnation}"
    cut_off = ", which ended before the save had returned" if restored.unfinished else ""
    text = f"restored {restored.path}, {saved}{cut_off}"
    if chapter.steps and chapter.begins == 0 and restored.step:
        return f"{text}, and began from scratch"
    return text


def _count(steps: int) -> str:
    return f"{steps} step{'' if steps == 1 else 's'}"


def _lost(chapter: ProcessHistory, history: Sequence[ProcessHistory]) -> str:
    if chapter is history[-1]:
        return ""
    if chapter.lost is None:
        return ", how many of them were lost is not known"
    return f", {_count(chapter.lost)} of the job lost"


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
