"""What a companion of a run, such as the injector of faults, sees of it and may do with it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from simulator.journal.journal import Journal
from simulator.machines.placement import Placement
from simulator.network import Network
from simulator.run.breakdown import Breakdown
from simulator.run.options import Options
from simulator.run.task import Task
from simulator.topology import Topology
from simulator.wire.control import Action

__all__ = ["Running"]


class Running(Protocol):
    """A run that goes on; `simulator.run.run.Run` says more of each name."""

    topology: Topology
    options: Options
    directory: Path
    gates: Mapping[str, Sequence[str]]
    # The present incarnation of each task.
    tasks: dict[str, Task]
    journal: Journal
    breakdown: Breakdown
    # Which machine each task is on.
    placement: Placement

    @property
    def clients(self) -> list[Task]:
        """The tasks that have to finish."""

    @property
    def network(self) -> Network:
        """The network between the tasks; raises UsageError where they are connected directly."""

    @property
    def changed(self) -> threading.Condition:
        """Notified at every change; guards what the tasks' threads and companions share."""

    @property
    def began(self) -> float:
        """Seconds of CLOCK_MONOTONIC."""

    def is_over(self, task: str) -> bool:
        """Whether nothing more is to be expected of this task."""

    def open_gate(self, task: str, actions: Sequence[Action] = ()) -> None:
        """Let a task go on from its gate."""

    def restart(self, task: str, *, after: int | None = None) -> Task:
        """Start one task again."""
