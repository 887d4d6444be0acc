"""Turns a task into a process: its specification, its environment, and the way it is started."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from simulator.agent import main
from simulator.helpers.doorkeeper import HostDoor
from simulator.launch import Launched, forkserver
from simulator.launch.environment import task_environment
from simulator.launch.programs import Command, launch_command
from simulator.machines.local.warden import warden
from simulator.run.options import Options
from simulator.run.task import Task
from simulator.topology import Topology
from simulator.wire.spec import TaskSpec

__all__ = ["Launcher"]


@dataclass
class Launcher:
    """Makes the tasks of one run and starts their processes."""

    topology: Topology
    options: Options
    directory: Path
    work: bytes | Command
    # `host:port` of each task's server.
    addresses: Mapping[str, str]
    control: Path
    # What a task's agent says when it greets.
    key: str
    # The way into the host of a task, if it has one of its own.
    door: Callable[[str], HostDoor | None]

    def new_task(self, name: str) -> Task:
        """A task that has not been started."""
        is_program = isinstance(self.work, Command)
        clients = self.work.clients(self.topology) if isinstance(self.work, Command) else self.topology.clients
        stem = name.replace(":", "-")
        return Task(
            name=name,
            is_client=name in clients,
            is_program=is_program,
            log_path=self.directory / "logs" / f"{stem}.log",
            stacks_path=self.directory / "stacks" / f"{stem}.txt",
        )

    def launch(
        self, task: Task, *, environ: Mapping[str, str], gates: tuple[str, ...], hooks: tuple[str, ...]
    ) -> Launched:
        """Start the process of a task; the warden kills its group if this process ends first.

        Args:
            task: which one.
            environ: variables of the network between the tasks.
            gates: points of its program at which it stops.
            hooks: what has to be patched in it.
        """
        given = {**environ, **self.options.env}
        spec = TaskSpec(
            task=task.name,
            incarnation=task.incarnation,
            control=str(self.control),
            log=str(task.log_path),
            stacks=str(task.stacks_path),
            environ=task_environment(task.name, self.topology.tf_config(task.name, self.addresses), given),
            devices=str(self.topology.devices_of(task.job)),
            rank=self.topology.tasks.index(task.name),
            threads=max(1, _cores() // len(self.topology.tasks)),
            tensorflow="tensorflow" in self.options.preload,
            server=not task.is_client,
            gates=gates,
            hooks=hooks,
            key=self.key,
        )
        door = self.door(task.name)
        if isinstance(self.work, Command):
            launched = launch_command(self.work, spec, door)
        else:
            launched = forkserver(self.options.preload).start(main.main, (spec,), task.name, door)
        try:
            warden.watch_group(launched.pid)
        except BaseException:
            launched.end(0.0)
            raise
        return launched


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
