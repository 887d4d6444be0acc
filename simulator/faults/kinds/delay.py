"""A longer way, as between racks: every byte of the link is late by the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from simulator.faults.kinds._links import ConditionFault, slower
from simulator.faults.protocol import LASTING, Effect, Scene
from simulator.units import parse_duration

__all__ = ["KIND", "Delay"]


class Delay(ConditionFault, tag="delay", kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`delay` on each of the links. Proof: a probe's round trip, at least once or, both ways, twice the delay."""

    delay: str = "20ms"

    needed: ClassVar[tuple[str, ...]] = ("src", "dst", "delay")

    searched: ClassVar[Mapping[str, Sequence[Any]]] = {"delay": ("10ms", "5ms", "100ms"), "duration": LASTING}

    def conditions(self) -> dict[str, Any]:
        """The delay."""
        return {"delay": self.delay}

    def prove(self, scene: Scene) -> Effect:
        """Probe it."""
        one_way = parse_duration(self.delay, "delay")
        return slower(scene, self.pair(scene), one_way if self.one_way else 2 * one_way)


KIND = Delay
