"""What the kinds that set a resource limit share: the limit is lifted from outside, whatever the task is doing."""

from __future__ import annotations

import contextlib
import resource

from simulator.faults.protocol import Effect, NoEffect, Scene


def refused(scene: Scene, limit: int, what: str) -> Effect:
    """Wait for each agent's report, and see that the limit has refused something."""
    scene.wait(lambda: all(process.acted.get(scene.name) for process in scene.processes), f"the report of {what}")
    for process in scene.processes:
        process.bounds[limit, scene.name] = process.acted[scene.name]["bound"]
    seen = {process.name: process.acted[scene.name]["refused"] for process in scene.processes}
    free = [name for name, error in seen.items() if not error]
    if free:
        raise NoEffect(f"{what} was not refused in {', '.join(free)}")
    return {"refused": seen}


def lift(scene: Scene, limit: int) -> Effect:
    """Set the limit back in each process that is still there: to what another fault has set, or its hard bound."""
    lifted = []
    for process in scene.processes:
        process.bounds.pop((limit, scene.name), None)
        if process.alive and process.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                _, hard = resource.prlimit(process.pid, limit)
                rest = [bound for (of, _), bound in process.bounds.items() if of == limit]
                resource.prlimit(process.pid, limit, (min(rest, default=hard), hard))
                lifted.append(process.name)
    return {"lifted": lifted}
