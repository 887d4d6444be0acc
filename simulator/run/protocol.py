"""What a companion of a run, such as the injector of faults, sees of it and may do with it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from simulator.errors import TaskError
from simulator.journal.journal import Journal
from simulator.machines.placement import Placement
from simulator.network import Network
from simulator.results import PlannedFault
from simulator.run.breakdown import Breakdown
from simulator.run.options import Options
from simulator.run.task import Task
from simulator.topology import Topology
from simulator.wire.control import Action


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


class Companion(Protocol):
    """Begins when the tasks have been launched and finishes before the last of them is told to end."""

    @property
    def gates(self) -> Mapping[str, Sequence[str]]:
        """Task to the points of its program at which it stops."""

    @property
    def hooks(self) -> Mapping[str, Sequence[str]]:
        """Task to what has to be patched in it."""

    def begin(self, run: Running) -> None:
        """Start to act on this run. Nobody waits for its work to be done."""

    def busy(self) -> bool:
        """Whether something is still to come without which the run is not over, such as a restart."""

    def failed(self) -> bool:
        """Whether there is no point in going on with the run."""

    def finish(self, patience: float = 0.0) -> Sequence[TaskError]:
        """Undo everything, stop acting, and say what is wrong. Called at least once; again returns the same.

        Args:
            patience: seconds that what is under way may still take, because the run has them left.
        """

    def faults(self) -> Sequence[PlannedFault]:
        """What has come of each fault that it was to bring."""


class NoCompanion:
    """Nobody goes along."""

    gates: Mapping[str, Sequence[str]] = {}
    hooks: Mapping[str, Sequence[str]] = {}

    def begin(self, run: Running) -> None:
        """Do nothing."""

    def busy(self) -> bool:
        """Never."""
        return False

    def failed(self) -> bool:
        """Never."""
        return False

    def finish(self, patience: float = 0.0) -> Sequence[TaskError]:
        """Nothing was wrong."""
        return ()

    def faults(self) -> Sequence[PlannedFault]:
        """None."""
        return ()
