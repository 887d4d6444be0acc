"""Makes the tasks of a run, and says what the process of each has to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from simulator.hardware.sharing import GpuShare
from simulator.launch.protocol import Launcher
from simulator.machines.local.machine import stem_of
from simulator.machines.placement import Placement
from simulator.network import Network
from simulator.run.options import Options
from simulator.run.task import Task
from simulator.topology import Topology
from simulator.wire.spec import TaskSpec


@dataclass
class Starter:
    """Knows what all tasks of a run share.

    Attributes:
        topology: the tasks.
        options: of the run.
        directory: for logs and stacks.
        launcher: how a task becomes a process.
        addresses: `host:port` of each task's server.
        placement: which task is on which machine.
        shares: the GPUs of each task.
        hardware: variables by which tasks see the devices that they compute on.
        network: between the tasks, if somebody keeps one; from its start on.
    """

    topology: Topology
    options: Options
    directory: Path
    launcher: Launcher
    addresses: dict[str, str]
    placement: Placement
    shares: Mapping[str, GpuShare] = field(default_factory=dict)
    hardware: Mapping[str, str] = field(default_factory=dict)
    network: Network | None = None

    def move(self) -> None:
        """Give the tasks of lost machines to others; all tasks have ended, and all are started again."""
        if self.network is None:
            self._move()
        else:
            self.network.move(lambda: (self._move(), self.placement.far(self.topology.tasks)))

    def _move(self) -> dict[str, str]:
        moved = self.placement.move()
        self.addresses.clear()
        self.addresses.update(moved)
        return moved

    def new_task(self, name: str) -> Task:
        """A task that has not been started."""
        stem = stem_of(name)
        return Task(
            name=name,
            is_client=name in self.launcher.clients(self.topology),
            log_path=self.directory / "logs" / f"{stem}.log",
            stacks_path=self.directory / "stacks" / f"{stem}.txt",
            machine=self.placement.machine(name),
            greets=self.launcher.call is not None,
        )

    def spec(
        self, task: Task, *, environ: Mapping[str, str], gates: tuple[str, ...], hooks: tuple[str, ...]
    ) -> TaskSpec:
        """What the machine of a task has to know to start its process; the rest is the machine's own.

        Args:
            task: which one.
            environ: variables of the network between the tasks.
            gates: points of its program at which it stops.
            hooks: what has to be patched in it.
        """
        config = self.topology.tf_config(task.name, self.addresses)
        given = {} if config is None else {"TF_CONFIG": config}
        share = self.shares.get(task.name, GpuShare())
        machine = self.placement.machine(task.name)
        here = self.placement.tasks(machine)
        return TaskSpec(
            task=task.name,
            incarnation=task.incarnation,
            environ={**self.launcher.environ, **given, **self.hardware, **environ, **self.options.env},
            devices=str(self.topology.devices_of(task.job)),
            rank=here.index(task.name),
            threads=max(1, machine.facts.cores // len(here)),
            tensorflow="tensorflow" in self.options.preload,
            server=not task.is_client,
            gates=gates,
            hooks=hooks,
            gpus=share.gpus,
            gpu_memory_mb=share.memory_mb,
        )
