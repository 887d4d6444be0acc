"""A link that takes no bytes for a while, which is what packet loss looks like to TCP: late, complete, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from simulator.faults.kinds._links import ConditionFault, cut_off
from simulator.faults.protocol import Effect, Scene


class Stall(ConditionFault, tag="stall", kw_only=True, frozen=True):
    """Nothing is read from the sender, which is slowed down as its buffers fill. Proof: a probe without an answer."""

    duration: str | None = "1s"

    # What the sender has in its own buffers was not seen by the relay.
    needs_traffic: ClassVar[bool] = False

    searched: ClassVar[Mapping[str, Sequence[Any]]] = {"duration": ("1s", "300ms", "3s")}

    def conditions(self) -> dict[str, Any]:
        """The flag."""
        return {"stall": True}

    def prove(self, scene: Scene) -> Effect:
        """Probe it."""
        return cut_off(scene, self.pair(scene), "silent")


KIND = Stall
