"""A machine that loses its power: everything that runs there is gone at once, and nobody there says so."""

from __future__ import annotations

from typing import ClassVar

from simulator.faults.kinds._machines import MachineFault, seen_lost, strike
from simulator.faults.protocol import Effect, Scene

_SEEN_SECONDS_MAX = 10.0


class MachineLost(MachineFault, tag="machine_lost", kw_only=True, frozen=True):
    """The machine of each task ends, with all tasks that run there. Proof: its stream ends, and the run has lost it."""

    cause: ClassVar[str] = "hard death"

    def inject(self, scene: Scene) -> Effect:
        """Take the power away."""
        for machine in strike(scene):
            machine.power_off()
        return {}

    def measure(self, scene: Scene) -> Effect:
        """See that the stream has ended."""
        return seen_lost(scene, _SEEN_SECONDS_MAX)


KIND = MachineLost
