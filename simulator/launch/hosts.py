"""Tasks inside hosts of their own: started as another launcher does, and led into the host by a doorkeeper."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import multiprocess

from simulator.errors import LockstepError, TaskError
from simulator.helpers.doorkeeper import HostDoor, begin
from simulator.launch.forkserver import ForkedProcess, fork
from simulator.launch.protocol import EntryPoint, Failure, Launcher, ProcessEnd
from simulator.machines.protocol import Process
from simulator.topology import Topology
from simulator.wire.spec import TaskSpec

_ENTER_SECONDS_MAX = 10.0


@dataclass(frozen=True)
class InHosts:
    """Another launcher, each of whose tasks gets into its own host.

    Attributes:
        inner: says what a task executes.
        door: the way into the host of a task.
    """

    inner: Launcher
    door: Callable[[str], HostDoor]

    @property
    def call(self) -> bytes | None:
        """As without hosts."""
        return self.inner.call

    @property
    def environ(self) -> Mapping[str, str]:
        """As without hosts."""
        return self.inner.environ

    def clients(self, topology: Topology) -> tuple[str, ...]:
        """As without hosts."""
        return self.inner.clients(topology)

    def entry(self, spec: TaskSpec) -> EntryPoint:
        """As without hosts; it happens inside."""
        return self.inner.entry(spec)

    def launch(self, spec: TaskSpec) -> Process:
        """Start it inside."""
        return start_inside(self.door(spec.task), self.entry(spec), spec.task)

    def failure(self, end: ProcessEnd) -> Failure | None:
        """The doorkeeper ends as the task did."""
        return self.inner.failure(end)

    def complaint(self, error: TaskError, log: Path) -> str:
        """As without hosts."""
        return self.inner.complaint(error, log)


def start_inside(door: HostDoor, entry: EntryPoint, name: str) -> ForkedProcess:
    """Start a process called `name` inside a host; what is waited for is the doorkeeper, who ends after it and alike.

    Raises:
        LockstepError: it could not get into the host.
    """
    told, teller = multiprocess.get_context("forkserver").Pipe(duplex=False)
    outside = fork(replace(entry, target=begin, args=(door, teller, entry.target, entry.args)), name)
    pid, why = -1, f"no answer within {_ENTER_SECONDS_MAX:g} s"
    try:
        teller.close()
        with told, contextlib.suppress(EOFError):
            if told.poll(_ENTER_SECONDS_MAX):
                pid, why = told.recv()
    finally:
        if pid < 0:
            outside.end(0.0)
    if pid < 0:
        raise LockstepError(f"{name} could not get into its host: {why}")
    return replace(outside, pid=pid)
