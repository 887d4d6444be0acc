"""What a run is to be, before anything of it is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from simulator.launch.environment import local_start
from simulator.launch.protocol import Launcher
from simulator.machines.local.machine import LocalMachine
from simulator.machines.placement import Placement, placed
from simulator.machines.protocol import Machine
from simulator.run.expectations import Expectation
from simulator.run.options import Options
from simulator.run.protocol import Companion, NoCompanion
from simulator.topology import Topology


@dataclass(frozen=True)
class RunPlan:
    """What a run is to be.

    Attributes:
        topology: the tasks.
        options: how they are run.
        directory: for logs, stacks and the journal.
        launcher: what every task executes, and how it becomes a process.
        expectations: failures that must happen.
        gates: task to the points of the program at which it stops until `open_gate`.
        companion: what goes along and acts on the tasks.
        machines: where tasks run; here, if there are none.
        place: the machine of each task.
    """

    topology: Topology
    options: Options
    directory: Path
    launcher: Launcher
    expectations: Sequence[Expectation] = ()
    gates: Mapping[str, Sequence[str]] = field(default_factory=dict)
    companion: Companion = field(default_factory=NoCompanion)
    machines: Sequence[Machine] = ()
    place: Mapping[str, str] = field(default_factory=dict)

    def placement(self, launcher: Launcher, *, ports: bool) -> Placement:
        """Which machine each task is on: this one, unless there are others.

        Args:
            launcher: starts tasks here.
            ports: whether their servers need ports of this machine.
        """
        if self.machines:
            return Placement(self.machines, self.place)
        here = LocalMachine(self.directory, local_start(launcher), ports=ports)
        return Placement([here], placed(self.topology.tasks, [here.name], {}))
