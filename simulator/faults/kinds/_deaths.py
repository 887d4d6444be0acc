"""What the kinds that end processes share: an announced death, its proof, and the restart that follows."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import ClassVar

from simulator.faults.protocol import Effect, NoEffect, Scene, TaskFault
from simulator.run.task import Task, signal_name
from simulator.units import parse_duration


class Death(TaskFault, kw_only=True, frozen=True):
    """A fault after which its tasks are dead.

    Attributes:
        restart: start them again this long afterwards, as a new incarnation; without it they stay dead.
    """

    restart: str | None = None

    repeats: ClassVar[tuple[str, ...]] = ("ended", "restarted")
    plainest: ClassVar[str] = "kill"
    anywhere: ClassVar[bool] = True

    def stay(self, scene: Scene) -> None:
        """Wait for the time of the restart."""
        if self.restart is not None:
            scene.pause(parse_duration(self.restart, "restart"))

    def undo(self, scene: Scene) -> Effect:
        """Start the tasks again, if that was asked for."""
        return {} if self.restart is None else start_again(scene)

    @property
    def lasts(self) -> bool:
        """A death is a moment; what can follow it is a restart."""
        return False

    @property
    def brings_back(self) -> bool:
        """Whether a restart was asked for."""
        return self.restart is not None


def announce(scene: Scene, *, comes_back: bool) -> list[Task]:
    """Tell the run that the death of these tasks is planned; returns the processes that are to die.

    If the run has a restart policy and the fault no restart of its own, the policy shall see a failure like any other.
    """
    tasks = [scene.task(name) for name in scene.tasks]
    if comes_back or not scene.run.options.restarts.limit:
        for task in tasks:
            task.announce_end(comes_back=comes_back)
    return tasks


def ends(scene: Scene, tasks: Sequence[Task], what: str, seconds: float = 10.0) -> Effect:
    """Wait for the end of every process and return how each ended: a signal's name, or an exit code."""
    # One that returns has survived, and waits for the others.
    scene.wait(lambda: all(task.ended or task.result is not None for task in tasks), what, seconds)
    return {"ended": {task.name: how_ended(task) for task in tasks}}


def how_ended(task: Task) -> str | int | None:
    """The name of the signal that ended it, or its exit code."""
    return signal_name(task.exit) or task.exit


def alive(scene: Scene) -> None:
    """Raise NoEffect if a task has ended already: who is dead cannot be killed."""
    gone = [name for name in scene.tasks if not scene.task(name).alive]
    if gone:
        raise NoEffect(f"{', '.join(gone)} had ended before")


def unfinished(scene: Scene) -> None:
    """Raise NoEffect if a task has ended or returned already: the death of a process that is done disturbs nothing."""
    alive(scene)
    done = [name for name in scene.tasks if scene.task(name).result is not None]
    if done:
        raise NoEffect(f"{', '.join(done)} had returned before")


def kill_all(scene: Scene, *, comes_back: bool) -> Effect:
    """SIGKILL the process groups of all tasks, and see each end by it."""
    unfinished(scene)
    tasks = announce(scene, comes_back=comes_back)
    for task in tasks:
        task.signal_group(signal.SIGKILL)
    effect = ends(scene, tasks, "the exit after SIGKILL")
    others = {name: how for name, how in effect["ended"].items() if how != "SIGKILL"}
    if others:
        raise NoEffect(f"ended otherwise than by SIGKILL: {others}")
    return effect


def start_again(scene: Scene, returned: Sequence[Task] = ()) -> Effect:
    """Start every task again that is dead, or one of `returned`; returns the number of each one's new incarnation."""
    if scene.ending:
        return {"restarted": {}}
    dead = [scene.task(name) for name in scene.tasks]
    # One that lives has been started by the restart policy in the meantime, with the rest of the job.
    gone = [task.ended or any(task is each for each in returned) for task in dead]
    new = [
        scene.run.restart(task.name, after=task.incarnation) if is_gone else task
        for task, is_gone in zip(dead, gone, strict=True)
    ]
    # Fewer than asked for: it has failed again by now, which the run reports.
    scene.wait(lambda: all(task.is_up or task.ended for task in new), "restarted tasks to start", 60.0)
    return {"restarted": {task.name: task.incarnation for task in new}}
