"""A longer way, as between racks: every byte of the link is late by the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from simulator.faults.kinds._links import ConditionFault, probe
from simulator.faults.protocol import LASTING, Effect, NoEffect, Scene
from simulator.units import parse_duration


class Delay(ConditionFault, tag="delay", kw_only=True, frozen=True):
    """`delay` on each of the links. Proof: a probe's round trip, without jitter once or, both ways, twice the delay."""

    delay: str = "20ms"

    needed: ClassVar[tuple[str, ...]] = ("src", "dst", "delay")

    searched: ClassVar[Mapping[str, Sequence[Any]]] = {"delay": ("10ms", "5ms", "100ms"), "duration": LASTING}

    def conditions(self) -> dict[str, Any]:
        """The delay."""
        return {"delay": self.delay}

    def prove(self, scene: Scene) -> Effect:
        """Probe it."""
        least = parse_duration(self.delay, "delay") * (1 if self.one_way else 2)
        src, dst = self.pair(scene)
        # Jitter of the link would hide the delay in one probe, and in another look like it.
        trip = probe(scene, (src, dst), 5.0 + 2 * least, steady=True)
        if not isinstance(trip, float) or trip < least:
            raise NoEffect(f"the round trip from {src} to {dst}, without jitter, was {trip}, not {least:g} s or more")
        return {"round_trip_seconds": trip}


KIND = Delay
