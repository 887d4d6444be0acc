"""Tasks that are an unmodified program, and leave the processor to others."""

from __future__ import annotations

from dataclasses import dataclass, replace

from simulator.launch.programs import Programs
from simulator.launch.protocol import EntryPoint
from simulator.wire.spec import TaskSpec


@dataclass(frozen=True)
class Niced(Programs):
    """A program, started by `nice`."""

    def entry(self, spec: TaskSpec) -> EntryPoint:
        """As without it, but for the command."""
        return Programs.entry(replace(self, argv=("nice", "-n", "5", *self.argv)), spec)
