"""A link that loses packets, as with a bad cable or a switch whose queues are full; between hosts only."""

from __future__ import annotations

from typing import Any, ClassVar

from simulator.faults.kinds._links import ConditionFault
from simulator.faults.protocol import Effect, NoEffect, Scene
from simulator.units import parse_share


class Loss(ConditionFault, tag="loss", kw_only=True, frozen=True):
    """Each packet is lost with this probability, and sent again by TCP. Proof: some were, when it is undone.

    Needs `network=namespaces`, where there are packets.

    Attributes:
        loss: a percentage.
    """

    loss: str = "1%"

    anywhere: ClassVar[bool] = False
    needed: ClassVar[tuple[str, ...]] = ("src", "dst", "loss")

    unsearched: ClassVar[str] = "strikes packets between hosts, and a search runs on one"

    def conditions(self) -> dict[str, Any]:
        """The loss."""
        return {"loss": self.loss}

    def prove(self, scene: Scene) -> Effect:
        """Whether a packet is lost is chance; the counters show it when it is undone."""
        return {"loss": parse_share(self.loss, "loss")}

    def undo(self, scene: Scene) -> Effect:
        """Take it away and count what was lost."""
        came = super().undo(scene)
        if not came["lost"]:
            raise NoEffect(f"none of {came['packets']} packets was lost while it was in force")
        return came


KIND = Loss
