"""A link that goes down and up again and again, as with a bad cable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from simulator.errors import UsageError
from simulator.faults.kinds._links import cut_off
from simulator.faults.kinds.partition import Partition
from simulator.faults.protocol import Effect, Scene
from simulator.units import parse_duration


class Flap(Partition, tag="flap", kw_only=True, frozen=True):
    """A `partition` that comes `times` times. Proof: a probe each time that it is down.

    Attributes:
        times: how often it is down, from 2.
        down: for how long each time, from 300 ms on: the probe takes 250 ms of it.
        up: the time between.
    """

    mode: str = "hold"
    times: int | str = 3
    down: str = "500ms"
    up: str = "500ms"

    repeats: ClassVar[tuple[str, ...]] = ("probe", "times_down")
    searched: ClassVar[Mapping[str, Sequence[Any]]] = {"mode": ("hold", "reset", "blackhole"), "times": (2, 3)}

    def check(self) -> None:
        """It has no other duration than its own."""
        super().check()
        if self.duration is not None or self.until is not None:
            raise UsageError("flap lasts times x (down + up); it takes no duration and no until")

    def measure(self, scene: Scene) -> Effect:
        """Let it come up and go down."""
        probes = 1
        for _ in range(int(self.times) - 1):
            scene.pause(parse_duration(self.down, "down") - 0.25)
            if scene.rule is not None:
                scene.rule.remove()
            if not scene.pause(parse_duration(self.up, "up")):
                break
            scene.rule = scene.run.network.set(self.link())
            cut_off(scene, self.pair(scene), "silent" if self.mode in ("hold", "blackhole") else "refused")
            probes += 1
        return {"times_down": probes}

    def stay(self, scene: Scene) -> None:
        """The last time down."""
        scene.pause(parse_duration(self.down, "down") - 0.25)


KIND = Flap
