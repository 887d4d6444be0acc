"""Preemption, as by a scheduler that needs the machine: SIGTERM, time to save, SIGKILL."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from simulator.errors import UsageError
from simulator.faults.kinds._deaths import Death, announce, how_ended, start_again, unfinished
from simulator.faults.protocol import Effect, NoEffect, Scene
from simulator.run.restarts import has_done
from simulator.run.task import Task
from simulator.units import parse_duration


class Preempt(Death, tag="preempt", kw_only=True, frozen=True):
    """SIGTERM, `grace`, SIGKILL. Proof: the exit, and whether it came before the grace was over.

    TensorFlow catches SIGTERM in multi-worker training and goes on, so that only the SIGKILL ends such a task, unless
    it has done its work by then. A function that returns within the grace would have ended, had Lockstep not kept its
    process, so no SIGKILL follows. A task that is done, as all others are, is not started again: in synchronous
    training it would wait for them without end.

    Attributes:
        grace: from SIGTERM to SIGKILL.
        to: `process`, or `group` for its children too. SIGKILL always goes to the group.
    """

    grace: str = "10s"
    to: str = "process"

    cause: ClassVar[str] = "maintenance"
    searched: ClassVar[Mapping[str, Sequence[Any]]] = {"grace": ("1s", "100ms", "3s")}
    strikes_many: ClassVar[bool] = True

    def check(self) -> None:
        """`to` is one of two."""
        if self.to not in ("process", "group"):
            raise UsageError(f"to={self.to!r} is unknown to preempt; it is process or group")

    def inject(self, scene: Scene) -> Effect:
        """Send the notice."""
        unfinished(scene)
        announce(scene, comes_back=self.brings_back)
        for task in scene.processes:
            task.signal_group(signal.SIGTERM) if self.to == "group" else task.send_signal(signal.SIGTERM)
        return {}

    def measure(self, scene: Scene) -> Effect:
        """Wait for the grace and end what is left."""
        began = time.monotonic()
        tasks = scene.processes
        grace = parse_duration(self.grace, "grace")
        in_time = True
        try:
            scene.wait(lambda: all(task.ended or task.result is not None for task in tasks), "the exit", grace)
        except NoEffect:
            in_time = False
        took = time.monotonic() - began
        returned = _spare_returned(scene)
        for task in tasks:
            if task.name not in returned:
                task.signal_group(signal.SIGKILL)
        scene.wait(lambda: all(task.ended or task.name in returned for task in tasks), "the exit after SIGKILL")
        ended = {task.name: "returned" if task.name in returned else how_ended(task) for task in tasks}
        return {"ended": ended, "within_grace": in_time, "seconds": took}

    def undo(self, scene: Scene) -> Effect:
        """Start the tasks again, if that was asked for and there is something left to do."""
        if self.restart is None:
            return {}
        if _everybody_is_done(scene):
            _take_back(scene, scene.processes)
            return {"restarted": {}}
        return start_again(scene, returned=[task for task in scene.processes if task.result is not None])


def _spare_returned(scene: Scene) -> list[str]:
    """The tasks that have returned, and are to live."""
    with scene.run.changed:
        returned = [task for task in scene.processes if task.result is not None and not task.ended]
        _take_back(scene, returned)
    return [task.name for task in returned]


def _take_back(scene: Scene, tasks: Sequence[Task]) -> None:
    """Announce no end of these tasks any more, nor a restart: it was not the plan that ended them."""
    with scene.run.changed:
        for task in tasks:
            task.planned = task.stopped = task.comes_back = False
        scene.run.changed.notify_all()


def _everybody_is_done(scene: Scene) -> bool:
    """Whether the preempted tasks have done their work within the grace, and so have those that were not preempted.

    Without such others it is unknown whether a task has done its work or has left when it was told to.
    """
    others = [task.name for task in scene.run.clients if task.name not in scene.tasks and task.job != "evaluator"]
    processes = scene.processes
    if not others or not all(has_done(task) and scene.task(task.name) is task for task in processes):
        return False
    with contextlib.suppress(NoEffect):  # synchronous training ends for all at about the same time
        scene.wait(
            lambda: scene.ending or all(has_done(scene.task(name)) for name in others),
            "the end of the others",
            scene.run.options.peer_grace,
        )
    return all(has_done(scene.task(name)) for name in others)


KIND = Preempt
