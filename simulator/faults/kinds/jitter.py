"""A way of varying length: every byte of the link is late by a random time, and none overtakes another."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from simulator.faults.kinds._links import ConditionFault, probe
from simulator.faults.protocol import LASTING, Effect, NoEffect, Scene
from simulator.faults.values import FaultValue
from simulator.units import parse_duration

# One way and around nothing, a probe's jitter is less than a quarter of its scale with a probability of 5/8 if it is
# uniform, which is the most, so that 32 of them are with one of 3e-7. Mostly one or two will do.
_PROBES = 32
# A busy machine makes some of them late.
_STEADY_PROBES = 3


class Jitter(ConditionFault, tag="jitter", kw_only=True, frozen=True):
    """A delay that varies. Proof: one of up to 32 round trips is off by a quarter of the jitter.

    Attributes:
        jitter: the scale of the distribution; see `simulator.Link`.
        jitter_kind: `uniform`, `normal` or `pareto`.
        delay: what it varies around; without one, as of a link, around the delay that is there, or none.
    """

    jitter: str = "5ms"
    jitter_kind: str = "uniform"
    delay: str | None = None

    needed: ClassVar[tuple[str, ...]] = ("src", "dst", "jitter")
    # It may vary around nothing.
    values: ClassVar[Mapping[str, FaultValue]] = {"delay": FaultValue("duration")}

    searched: ClassVar[Mapping[str, Sequence[Any]]] = {"jitter": ("20ms", "10ms"), "duration": LASTING}

    def check(self) -> None:
        """The relay knows the distribution."""
        if self.src and self.dst and not any(".." in value for value in (self.jitter, self.delay or "")):
            self.link()

    def conditions(self) -> dict[str, Any]:
        """Jitter, its kind, and the delay around which it varies."""
        return {"jitter": self.jitter, "jitter_kind": self.jitter_kind, "delay": self.delay}

    def prove(self, scene: Scene) -> Effect:
        """Probe it."""
        pair, scale = self.pair(scene), parse_duration(self.jitter, "jitter")
        steady = [probe(scene, pair, 5.0, steady=True) for _ in range(_STEADY_PROBES)]
        without = min((trip for trip in steady if isinstance(trip, float)), default=math.nan)
        trips: list[float | str] = []
        for _ in range(_PROBES):
            trips.append(trip := probe(scene, pair, 5.0 + 2 * scale))
            if isinstance(trip, float) and abs(trip - without) >= scale / 4:
                return {"round_trip_seconds": trip, "without_jitter": without}
        raise NoEffect(f"round trips from {pair[0]} to {pair[1]} were {trips}, and {without} s without jitter")


KIND = Jitter
