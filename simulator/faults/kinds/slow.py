"""A straggler: the task computes at a fraction of its speed, or is late by a fixed time in each step."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from simulator.errors import UsageError
from simulator.faults.kinds._deaths import alive
from simulator.faults.kinds.pause import is_stopped
from simulator.faults.protocol import LASTING, Effect, NoEffect, Scene, TaskFault
from simulator.units import parse_duration


class Slow(TaskFault, tag="slow", kw_only=True, frozen=True):
    """Stopped for a share of each period, or held after each step. Proof: a stop in state T, or a held step.

    Attributes:
        factor: how many times slower: it runs for `period / factor` and is stopped for the rest of each period.
        period: of that duty cycle.
        per_step: instead, stand for so long at each announced step from the trigger on.
        duration: how long; without it until the plan heals or the run ends.
    """

    factor: float | str | None = None
    period: str = "100ms"
    per_step: str | None = None
    duration: str | None = None

    repeats: ClassVar[tuple[str, ...]] = ("state",)
    cause: ClassVar[str] = "hang"
    felt_by_peers: ClassVar[bool] = True
    searched: ClassVar[Mapping[str, Sequence[Any]]] = {"per_step": ("20ms", "100ms"), "duration": LASTING}
    clients_only: ClassVar[bool] = True

    def check(self) -> None:
        """One of the two ways."""
        if (self.factor is None) == (self.per_step is None):
            raise UsageError("slow needs either factor, for example factor=3, or per_step, for example per_step=50ms")

    @property
    def stands_each_step(self) -> tuple[str, ...]:
        """Its tasks, if each of their steps is held."""
        return () if self.per_step is None else tuple(self.task)

    def inject(self, scene: Scene) -> Effect:
        """Begin to hold each step; a duty cycle begins when the tasks go on."""
        alive(scene)
        if self.per_step is not None:
            for name in scene.tasks:
                scene.hold_each_step(name, parse_duration(self.per_step, "per_step"))
        return {}

    def measure(self, scene: Scene) -> Effect:
        """See one delay of each task."""
        if self.per_step is None:
            return {"stopped_seconds": self._cycle(scene)}
        over = scene.run.is_over
        scene.wait(lambda: all(scene.held_steps(name) or over(name) for name in scene.tasks), "a held step", 60.0)
        free = [name for name in scene.tasks if not scene.held_steps(name)]
        if free:
            raise NoEffect(f"{', '.join(free)} ended without another step, so that none could be held")
        return {"held_each_step": self.per_step}

    def stay(self, scene: Scene) -> None:
        """Go on with the cycle until the duration is over."""
        if self.per_step is not None:
            super().stay(scene)
            return
        end = None if self.duration is None else time.monotonic() + parse_duration(self.duration, "duration")
        while end is None or time.monotonic() < end:
            if not scene.pause(self._running) or not any(scene.task(name).alive for name in scene.tasks):
                return
            self._cycle(scene)

    def undo(self, scene: Scene) -> Effect:
        """Let them run freely."""
        for name in scene.tasks:
            scene.task(name).go_on(scene.name)
            scene.hold_each_step(name, 0.0)
        return {} if self.per_step is None else {"held_steps": {name: scene.held_steps(name) for name in scene.tasks}}

    @property
    def _running(self) -> float:
        assert self.factor is not None
        return parse_duration(self.period, "period") / float(self.factor)

    def _cycle(self, scene: Scene) -> float:
        """Stop them once for their share of a period; returns for how long they were stopped, in seconds."""
        for name in scene.tasks:
            scene.task(name).stop(scene.name)
        began = time.monotonic()
        try:
            scene.wait(lambda: all(is_stopped(scene.task(name)) for name in scene.tasks), "process state T", 5.0)
            scene.pause(parse_duration(self.period, "period") - self._running)
        except NoEffect:
            if all(scene.task(name).alive for name in scene.tasks):
                raise
        finally:
            for name in scene.tasks:
                scene.task(name).go_on(scene.name)
        return time.monotonic() - began


KIND = Slow
