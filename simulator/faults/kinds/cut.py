"""A machine whose cable is pulled: it runs on, and nobody reaches it, so that its lease decides."""

from __future__ import annotations

from typing import ClassVar

from simulator.faults.kinds._machines import MachineFault, seen_lost, strike
from simulator.faults.protocol import Effect, Scene

# The lease of a machine, after which its tasks have ended, takes 11 s.
_LOST_SECONDS_MAX = 30.0


class Cut(MachineFault, tag="cut", kw_only=True, frozen=True):
    """The cable of each task's machine is pulled, by the command that the cluster was given for that. It stays so.

    Proof: nothing has been heard of the machine until its lease was over.
    """

    cause: ClassVar[str] = "network"
    needs_cable: ClassVar[bool] = True
    unsearched: ClassVar[str] = "pulls a cable that nobody puts back for the next run"

    def inject(self, scene: Scene) -> Effect:
        """Pull it."""
        for machine in strike(scene):
            machine.cut()
        return {}

    def measure(self, scene: Scene) -> Effect:
        """See that the machine was silent, and was given up."""
        return seen_lost(scene, _LOST_SECONDS_MAX)


KIND = Cut
