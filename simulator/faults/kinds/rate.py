"""A thin link, as of an oversubscribed switch: all connections together carry so many bytes a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from simulator.faults.kinds._links import ConditionFault, traffic
from simulator.faults.protocol import LASTING, Effect, NoEffect, Scene
from simulator.units import parse_rate

# A token bucket may give a burst, and counters are read a moment after the clock.
_SLACK = 1.25
_BURST_BYTES = 2 * 2**20
_SECONDS_MIN = 0.2


class Rate(ConditionFault, tag="rate", kw_only=True, frozen=True):
    """`rate` for each directed link. Proof: bytes came by, and no more of them than the rate allows."""

    rate: str = "10MB/s"

    needed: ClassVar[tuple[str, ...]] = ("src", "dst", "rate")

    searched: ClassVar[Mapping[str, Sequence[Any]]] = {"rate": ("1MB/s", "100KB/s"), "duration": LASTING}

    def conditions(self) -> dict[str, Any]:
        """The rate."""
        return {"rate": self.rate}

    def prove(self, scene: Scene) -> Effect:
        """A probe of one byte shows nothing of a rate; the counters do, when it is undone."""
        return {"rate_bytes_per_second": parse_rate(self.rate)}

    def measure(self, scene: Scene) -> Effect:
        """Count for a moment what is delivered."""
        links = self.struck(scene)
        before = traffic(scene, links)["delivered"]
        scene.pause(_SECONDS_MIN)
        passed = traffic(scene, links)["delivered"] - before
        most = _SLACK * parse_rate(self.rate) * _SECONDS_MIN * len(links) + _BURST_BYTES
        if passed > most:
            raise NoEffect(f"{passed} bytes passed in {_SECONDS_MIN:g} s, and the rate allows {most:.0f}")
        return {"delivered_in_0.2_seconds": passed}


KIND = Rate
