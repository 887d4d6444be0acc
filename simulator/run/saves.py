"""What tasks save and restore, as events of the journal: one for each outermost call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from simulator.results import Saved
from simulator.wire.control import Begins, SaveBegun, SaveEnded

Write = Callable[..., None]


@dataclass(frozen=True)
class OpenSave:
    """A save or restore that is under way: what the task has said of it, and the step that it had announced before."""

    begun: SaveBegun
    step: int


class TaskSaves(Protocol):
    """A task, as far as its saves are concerned."""

    steps: int
    saving: dict[int, OpenSave]
    saves: list[Saved]
    begins_with: int | None


def note(task: TaskSaves, message: Begins | SaveBegun | SaveEnded, write: Write) -> None:
    """Take in what a task says of a save, or of its begin, and write the event when it is over.

    Args:
        task: which one.
        message: what it says.
        write: writes an event of this task: its name and fields.
    """
    if isinstance(message, Begins):
        task.begins_with = message.state
        write("begins", state=message.state, at=message.at)
    elif isinstance(message, SaveBegun):
        task.saving[message.number] = OpenSave(message, task.steps)
    elif (save := task.saving.pop(message.number, None)) is not None:
        begun = save.begun
        task.saves.append(Saved(begun.kind, message.path, save.step, begun.restores, message.failed, state=begun.state))
        _write(save, message, message.at, write)


def cut_off(task: TaskSaves, at: float, write: Write) -> None:
    """Write what the end of its process, at this time, has left unfinished."""
    for save in task.saving.values():
        begun = save.begun
        told = Saved(begun.kind, begun.path, save.step, begun.restores, None, unfinished=True, state=begun.state)
        task.saves.append(told)
        _write(save, None, at, write)
    task.saving.clear()


def _write(save: OpenSave, ended: SaveEnded | None, at: float, write: Write) -> None:
    begun = save.begun
    write(
        "restore" if begun.restores else "save",
        step=save.step,
        kind=begun.kind,
        path=begun.path if ended is None else ended.path,
        at=begun.at,
        seconds=max(0.0, at - begun.at),
        bytes=None if ended is None else ended.bytes,
        failed=None if ended is None else ended.failed,
        unfinished=ended is None,
        # Of an asynchronous checkpoint: what its caller waits for, and what a thread of TensorFlow's does afterwards.
        state=begun.state,
        asynchronous="thread" if begun.background else "call" if ended is not None and ended.handed_over else None,
    )
