"""What the kinds share that take a whole machine away, named by tasks that run there."""

from __future__ import annotations

import itertools
from typing import ClassVar

from simulator.faults.kinds._deaths import unfinished
from simulator.faults.protocol import Effect, Scene, TaskFault
from simulator.machines.protocol import Machine


class MachineFault(TaskFault, kw_only=True, frozen=True):
    """A fault after which the machines of its tasks are lost, with all that runs there."""

    repeats: ClassVar[tuple[str, ...]] = ("lost",)
    anywhere: ClassVar[bool] = True
    of_machines: ClassVar[bool] = True

    @property
    def lasts(self) -> bool:
        """It is a moment: a machine that has been lost does not come back."""
        return False


def strike(scene: Scene) -> list[Machine]:
    """The machines of the fault's tasks; the end of all tasks that run there is announced.

    Not if the run has a restart policy, which shall see a failure like any other.
    """
    unfinished(scene)
    placement = scene.run.placement
    machines = list({machine.name: machine for machine in map(placement.machine, scene.tasks)}.values())
    scene.memory["machines"] = {machine: list(placement.tasks(machine)) for machine in machines}
    if not scene.run.options.restarts.limit:
        for name in itertools.chain(*scene.memory["machines"].values()):
            scene.task(name).announce_end()
    return machines


def seen_lost(scene: Scene, seconds: float) -> Effect:
    """Wait until the run has given each of the machines up, and say which tasks ran there."""
    struck: dict[Machine, list[str]] = scene.memory["machines"]
    names = ", ".join(machine.name for machine in struck)
    scene.wait(lambda: not any(machine.there for machine in struck), f"the loss of {names}", seconds)
    return {"lost": {machine.name: tasks for machine, tasks in struck.items()}}
