"""Too little memory: the task's address space is bounded, and an allocation fails."""

from __future__ import annotations

import resource
from typing import ClassVar

from simulator.agent.faults.oom import OUT_OF_MEMORY
from simulator.errors import UsageError
from simulator.faults.kinds._deaths import Death, announce, ends, how_ended
from simulator.faults.kinds._limits import bind, lift, refused
from simulator.faults.protocol import Effect, NoEffect, Scene
from simulator.run.task import Task
from simulator.units import parse_size

# TensorFlow's own shutdown takes seconds where all cores are busy.
_EXIT_SECONDS_MAX = 60.0


class Oom(Death, tag="oom", kw_only=True, frozen=True):
    """RLIMIT_AS in the task. Proof: an allocation of twice the room fails.

    A TensorFlow task maps 2 GB by its first op, most of it never touched; the bound is relative to that. What it maps
    anew beyond it is a ResourceExhaustedError; what its allocator holds already is granted.

    Attributes:
        size: how much more than it uses now the task may map.
        fatal: raise MemoryError at the gate, so that the task ends there. Otherwise go on with the bound in force, and
            let the program come to it.
        duration: how long the bound is there, if it is not fatal; without it until the plan heals or the run ends.
    """

    size: str = "16MiB"
    fatal: bool = True
    duration: str | None = None

    environment: ClassVar[bool] = True
    in_task: ClassVar[bool] = True
    # The bound of one that is not fatal is looked at, and lifted, from outside the task.
    anywhere: ClassVar[bool] = False

    repeats: ClassVar[tuple[str, ...]] = ("ended", "restarted", "refused", "lifted")
    cause: ClassVar[str] = "disk and memory"

    def check(self) -> None:
        """A task that it ends has no bound any more, and one that it does not end is not started again."""
        if self.fatal and self.duration is not None:
            raise UsageError("duration is how long the bound is there, and a fatal one ends its task; add fatal=false")
        if not self.fatal and self.restart is not None:
            raise UsageError("restart follows the end of the task, which fatal=false does not end; leave one out")

    @property
    def lasts(self) -> bool:
        """The bound does, if it does not end the task."""
        return not self.fatal

    def inject(self, scene: Scene) -> Effect:
        """Tell each agent."""
        if self.fatal:
            announce(scene, comes_back=self.brings_back)
        bind(scene, resource.RLIMIT_AS, "oom", headroom=parse_size(self.size, "size"), fatal=self.fatal)
        return {}

    def measure(self, scene: Scene) -> Effect:
        """See that each agent's allocation was refused, and each end if it is fatal."""
        effect = refused(scene, "an allocation")
        if self.fatal:
            effect |= ends(scene, scene.processes, "the exit after MemoryError", _EXIT_SECONDS_MAX)
            others = {task.name: how_ended(task) for task in scene.processes if not _by_memory_error(task)}
            if others:
                raise NoEffect(f"ended otherwise than by MemoryError: {others}")
        return effect

    def stay(self, scene: Scene) -> None:
        """Wait for the time of the restart, or of the end of the bound."""
        super().stay(scene) if self.fatal else super(Death, self).stay(scene)

    def undo(self, scene: Scene) -> Effect:
        """Lift the bound, or start the tasks again if that was asked for."""
        return super().undo(scene) if self.fatal else lift(scene, resource.RLIMIT_AS)


def _by_memory_error(task: Task) -> bool:
    """Whether nobody has caught the exception; a restart policy may kill the process while it shuts down."""
    how = how_ended(task)
    return how == 1 or (how == "SIGKILL" and f"MemoryError: {OUT_OF_MEMORY}" in task.log)


KIND = Oom
