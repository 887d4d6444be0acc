"""What the kinds that set a resource limit share: the limit is lifted from outside, whatever the task is doing."""

from __future__ import annotations

import contextlib
import resource

from simulator.faults.protocol import Effect, NoEffect, Scene


def refused(scene: Scene, what: str) -> Effect:
    """Wait for each agent's report, and see that the limit has refused something."""
    scene.wait(lambda: all(process.acted.get(scene.name) for process in scene.processes), f"the report of {what}")
    seen = {process.name: process.acted[scene.name]["refused"] for process in scene.processes}
    free = [name for name, error in seen.items() if not error]
    if free:
        raise NoEffect(f"{what} was not refused in {', '.join(free)}")
    return {"refused": seen}


def lift(scene: Scene, limit: int) -> Effect:
    """Set the limit back to its hard bound in each process that is still there."""
    lifted = []
    for process in scene.processes:
        if process.alive and process.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                _, hard = resource.prlimit(process.pid, limit)
                resource.prlimit(process.pid, limit, (hard, hard))
                lifted.append(process.name)
    return {"lifted": lifted}
