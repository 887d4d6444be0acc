"""What the kinds that set a resource limit share: the limit is lifted from outside, whatever the task is doing."""

from __future__ import annotations

import contextlib
import resource
from typing import Any

from simulator.faults.protocol import Effect, NoEffect, Scene


def bind(scene: Scene, limit: int, kind: str, **arguments: Any) -> None:
    """Have each agent set the limit, which stays in force until `lift`."""
    for process in scene.processes:
        process.bounded_by.add((limit, scene.name))
        scene.act(process.name, kind, **arguments)


def refused(scene: Scene, what: str) -> Effect:
    """Wait for each agent's report, and see that the limit has refused something."""
    scene.wait(lambda: all(process.acted.get(scene.name) for process in scene.processes), f"the report of {what}")
    seen = {process.name: process.acted[scene.name]["refused"] for process in scene.processes}
    free = [name for name, error in seen.items() if not error]
    if free:
        raise NoEffect(f"{what} was not refused in {', '.join(free)}")
    return {"refused": seen}


def lift(scene: Scene, limit: int) -> Effect:
    """Set the limit back in each process that is still there: to what another fault has set, or its hard bound."""
    lifted = []
    for process in scene.processes:
        process.bounded_by.discard((limit, scene.name))
        if process.alive and process.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                _, hard = resource.prlimit(process.pid, limit)
                others = (fault for of, fault in process.bounded_by if of == limit)
                rest = [process.acted[fault]["bound"] for fault in others if fault in process.acted]
                resource.prlimit(process.pid, limit, (min(rest, default=hard), hard))
                lifted.append(process.name)
    return {"lifted": lifted}
