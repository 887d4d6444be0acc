"""A task that is late: its process exists and its program has not begun while the others already wait for it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from simulator.errors import UsageError
from simulator.faults.protocol import Effect, Scene, TaskFault
from simulator.units import parse_duration


class LateStart(TaskFault, tag="late_start", kw_only=True, frozen=True):
    """The function is called `duration` later than in the other tasks. Proof: no step before, and the time held.

    It has its trigger, `step=0`, by itself. Only a task that runs the function can be late.
    """

    duration: str = "1s"

    in_task: ClassVar[bool] = True
    anywhere: ClassVar[bool] = True
    implied: ClassVar[Mapping[str, object]] = {"step": 0}

    cause: ClassVar[str] = "hang"
    searched: ClassVar[Mapping[str, Sequence[Any]]] = {"duration": ("1s", "300ms", "3s")}
    clients_only: ClassVar[bool] = True

    @property
    def lasts(self) -> bool:
        """For its duration, at one gate."""
        return False

    def check(self) -> None:
        """There is one moment to be late for."""
        if self.step != 0:
            raise UsageError("late_start strikes before the function is called: its trigger is step=0, by itself")

    def inject(self, scene: Scene) -> Effect:
        """Keep it at the gate before its function."""
        began = time.monotonic()
        scene.pause(parse_duration(self.duration, "duration"))
        return {"held_seconds": time.monotonic() - began, "steps": [scene.task(name).steps for name in scene.tasks]}


KIND = LateStart
