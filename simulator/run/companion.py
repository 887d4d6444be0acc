"""What may go along with a run and act on its tasks, such as the injector of a fault plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from simulator.errors import TaskError
from simulator.results import PlannedFault
from simulator.run.protocol import Running

__all__ = ["Alone", "Companion"]


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


class Alone:
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
