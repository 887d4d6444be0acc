"""Tasks that call a function: forked with TensorFlow imported, told when to begin, and asked for a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from _lockstep.preloads import adopt
from simulator.agent import main
from simulator.errors import TaskError
from simulator.launch.forkserver import DEFAULT_PRELOAD, at_import, fork
from simulator.launch.protocol import EntryPoint, Failure, ProcessEnd
from simulator.machines.local.disk_space import full_disk
from simulator.machines.protocol import Process
from simulator.topology import Topology
from simulator.wire.spec import TaskSpec


@dataclass(frozen=True)
class Functions:
    """Every client calls a function; the others are servers of TensorFlow.

    Attributes:
        call: the function and its arguments, from `simulator.wire.payload.pack`.
        preload: modules that the forkserver has imported.
        private: directories below which, on other machines, tasks are to write in a view of their machine's own; None
            where they are not.
        environ: variables of the environment that the arguments ask for.
        asked: what the parent's forkservers import besides `preload`, for those of other machines.
    """

    call: bytes
    preload: tuple[str, ...] = DEFAULT_PRELOAD
    private: tuple[str, ...] | None = None
    environ: Mapping[str, str] = field(default_factory=dict)
    asked: tuple[tuple[str, bool], ...] = ()

    def clients(self, topology: Topology) -> tuple[str, ...]:
        """Those that call the function."""
        return topology.clients

    def entry(self, spec: TaskSpec) -> EntryPoint:
        """The agent's main function."""
        return EntryPoint(self.preload, main.main, (spec,), at_import(spec.environ))

    def launch(self, spec: TaskSpec) -> Process:
        """Fork it."""
        adopt(self.asked)
        return fork(self.entry(spec), spec.task)

    def failure(self, end: ProcessEnd) -> Failure | None:
        """A server never ends by itself, and a client owes a result."""
        if not end.greeted:
            return "NeverStarted", f"ended with exit code {end.exit} before it reached the agent{full_disk(end.log)}"
        if end.signal:
            return "Signal", f"killed by {end.signal}"
        if end.exit != 0:
            return "Exit", f"ended with exit code {end.exit}"
        if not end.is_client:
            return "Exit", "the server ended although nobody had asked it to"
        if not end.returned:
            return "NoResult", f"ended with exit code 0 without returning a result{end.half_said}"
        return None

    def complaint(self, error: TaskError, log: Path) -> str:
        """What the agent has reported."""
        return f"{error.message}{error.traceback}"
