"""Makes the tasks of a run, and starts the process of each with all that it has to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from simulator.hardware.sharing import Share
from simulator.launch.environment import task_environment
from simulator.launch.protocol import Launcher, Process
from simulator.machines.local.host import cores
from simulator.machines.local.warden import warden
from simulator.run.options import Options
from simulator.run.task import Task
from simulator.topology import Topology
from simulator.wire.spec import TaskSpec

__all__ = ["Starter"]


@dataclass
class Starter:
    """Knows what all tasks of a run share.

    Attributes:
        topology: the tasks.
        options: of the run.
        directory: for logs and stacks.
        launcher: how a task becomes a process.
        addresses: `host:port` of each task's server.
        control: the socket on which the parent listens.
        key: what a task's agent says when it greets.
        shares: the GPUs of each task.
        hardware: variables by which tasks see the devices that they compute on.
    """

    topology: Topology
    options: Options
    directory: Path
    launcher: Launcher
    addresses: Mapping[str, str]
    control: Path
    key: str
    shares: Mapping[str, Share] = field(default_factory=dict)
    hardware: Mapping[str, str] = field(default_factory=dict)

    def new_task(self, name: str) -> Task:
        """A task that has not been started."""
        stem = name.replace(":", "-")
        return Task(
            name=name,
            is_client=name in self.launcher.clients(self.topology),
            log_path=self.directory / "logs" / f"{stem}.log",
            stacks_path=self.directory / "stacks" / f"{stem}.txt",
        )

    def start(
        self, task: Task, *, environ: Mapping[str, str], gates: tuple[str, ...], hooks: tuple[str, ...]
    ) -> Process:
        """Start the process of a task; the warden kills its group if this process ends first.

        Args:
            task: which one.
            environ: variables of the network between the tasks.
            gates: points of its program at which it stops.
            hooks: what has to be patched in it.
        """
        given = {**self.hardware, **environ, **self.options.env}
        share = self.shares.get(task.name, Share())
        spec = TaskSpec(
            task=task.name,
            incarnation=task.incarnation,
            control=str(self.control),
            log=str(task.log_path),
            stacks=str(task.stacks_path),
            environ=task_environment(task.name, self.topology.tf_config(task.name, self.addresses), given),
            devices=str(self.topology.devices_of(task.job)),
            rank=self.topology.tasks.index(task.name),
            threads=max(1, cores() // len(self.topology.tasks)),
            tensorflow="tensorflow" in self.options.preload,
            server=not task.is_client,
            gates=gates,
            hooks=hooks,
            gpus=share.gpus,
            gpu_memory_mb=share.memory_mb,
            key=self.key,
        )
        process = self.launcher.launch(spec)
        try:
            warden.watch_group(process.pid)
        except BaseException:
            process.end(0.0)
            raise
        return process
