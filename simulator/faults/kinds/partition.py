"""A link over which nothing comes, as when a switch or a network card fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from simulator.errors import UsageError
from simulator.faults.kinds._links import ConditionFault, cut_off
from simulator.faults.protocol import LASTING, Effect, Scene

_PROBE = {"reset": "refused", "refuse": "refused", "blackhole": "silent", "hold": "silent"}


class Partition(ConditionFault, tag="partition", kw_only=True, frozen=True):
    """Nothing passes. Proof: a probe that is refused, or gets no answer.

    Attributes:
        mode: `reset`: open connections are reset, and new ones with their first byte. `refuse`: new connections are
            refused. `blackhole`: bytes vanish, connections stay open. `hold`: bytes are kept and delivered in order at
            the end, as after a partition that TCP survives.
    """

    mode: str = "blackhole"

    searched: ClassVar[Mapping[str, Sequence[Any]]] = {
        "mode": ("hold", "reset", "refuse", "blackhole"),
        "duration": LASTING,
    }

    def check(self) -> None:
        """The mode is one of four."""
        if self.mode not in _PROBE:
            raise UsageError(f"mode={self.mode!r} is unknown to partition; it is one of {', '.join(_PROBE)}")

    def conditions(self) -> dict[str, Any]:
        """The flag of that name."""
        return {self.mode: True}

    def prove(self, scene: Scene) -> Effect:
        """Probe it."""
        return cut_off(scene, self.pair(scene), _PROBE[self.mode])


KIND = Partition
