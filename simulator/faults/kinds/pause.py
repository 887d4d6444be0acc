"""A task that is alive but silent, as with a stuck driver: SIGSTOP, and SIGCONT at the end."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import psutil

from simulator.errors import UsageError
from simulator.faults.kinds._deaths import alive
from simulator.faults.protocol import LASTING, Effect, Scene, TaskFault
from simulator.run.task import Task


class Pause(TaskFault, tag="pause", kw_only=True, frozen=True):
    """SIGSTOP to the process group for `duration`. Proof: process state T, and another state after SIGCONT.

    Attributes:
        duration: how long; without it until the plan heals or the run ends.
    """

    duration: str | None = None

    repeats: ClassVar[tuple[str, ...]] = ("state", "continued")
    cause: ClassVar[str] = "hang"
    felt_by_peers: ClassVar[bool] = True
    searched: ClassVar[Mapping[str, Sequence[Any]]] = {"duration": LASTING}
    strikes_many: ClassVar[bool] = True

    def check(self) -> None:
        """A task that is stopped comes to no step."""
        if self.until is not None and isinstance(self.of, tuple) and (stopped := set(self.of) & set(self.task)):
            raise UsageError(
                f"until={self.until} is a step of {', '.join(sorted(stopped))}, stopped until then; name another in of="
            )

    def inject(self, scene: Scene) -> Effect:
        """Stop them, and see them stopped."""
        alive(scene)
        for name in scene.tasks:
            scene.task(name).stop(scene.name)
        scene.wait(lambda: all(is_stopped(scene.task(name)) for name in scene.tasks), "process state T after SIGSTOP")
        return {"state": "T", "began": time.monotonic()}

    def undo(self, scene: Scene) -> Effect:
        """Let them run again; those that have been killed meanwhile stay so, and those that another fault stops."""
        tasks = [scene.task(name) for name in scene.tasks]
        for task in tasks:
            task.go_on(scene.name)
        scene.wait(lambda: not any(is_stopped(each) and not each.stopped_by for each in tasks), "another state")
        return {"continued": [name for name in scene.tasks if scene.task(name).alive]}


def is_stopped(task: Task) -> bool:
    """Whether the process is in state T of /proc."""
    if not task.alive or task.pid is None:
        return False
    try:
        return bool(psutil.Process(task.pid).status() == psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess:
        return False


KIND = Pause
