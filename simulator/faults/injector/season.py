"""For how long the faults of a run may act: what the injector tells all of them at once."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.faults.injector.gates import Gatekeeper

__all__ = ["Limits", "Season"]


@dataclass(frozen=True)
class Limits:
    """Until when, in seconds of CLOCK_MONOTONIC, faults may still be seen to work, and be undone."""

    seen: float
    undone: float


@dataclass
class Season:
    """What all faults of a run share; guarded by the run's condition.

    Attributes:
        keeper: of the gates.
        ending: the run is over; nothing shall be started any more.
        healed: the plan has all faults undone.
        limits: set when the run is over.
    """

    keeper: Gatekeeper
    ending: bool = False
    healed: bool = False
    limits: Limits | None = None
