"""What the kinds that strike links share: a condition for a time, a probe that proves it, and counters afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from simulator.errors import DeadlineExceeded
from simulator.faults.protocol import Effect, LinkFault, NoEffect, Scene
from simulator.network import Link, LinkCounters, LinkRefused, NetworkEnded

_PROBE_SECONDS = 0.25


class ConditionFault(LinkFault, kw_only=True, frozen=True):
    """A fault that is one condition of the relay. Proof: a probe through it, and bytes that came by."""

    # Whether a byte has to come by while it is in force; a closed link takes none.
    needs_traffic: ClassVar[bool] = True

    repeats: ClassVar[tuple[str, ...]] = ("probe",)
    cause: ClassVar[str] = "network"

    def conditions(self) -> dict[str, Any]:
        """The keys of `Link` that say it."""
        raise NotImplementedError

    def prove(self, scene: Scene) -> Effect:
        """Show with a probe that it is in force."""
        raise NotImplementedError

    def needs_relay(self, *, hosts: bool) -> bool:
        """For its condition, or to count until its trigger is met."""
        link = self.trigger_link() or self.link()
        link.check_network(hosts=hosts)
        return super().needs_relay(hosts=hosts) or link.needs_relay(hosts=hosts)

    def link(self, **trigger: Any) -> Link:
        """The condition as the relay is told."""
        return Link(src=str(self.src), dst=str(self.dst), one_way=self.one_way, **self.conditions(), **trigger)

    def trigger_link(self) -> Link | None:
        """The condition with its trigger, which the relay applies to the byte."""
        connections = None if self.connections is None else int(self.connections)
        return self.link(after_bytes=self.bytes_, after_connections=connections)

    def inject(self, scene: Scene) -> Effect:
        """Put it in force, unless the trigger has done so, and prove it."""
        before = scene.memory["before"] = traffic(scene, self.struck(scene))
        if scene.rule is None:
            scene.rule = scene.run.network.set(self.link())
        elif scene.rule.fired:
            # In force since the trigger was met, a moment before this was counted.
            met = scene.rule.fired[0]
            before["bytes"] -= traffic(scene, [(met.src, met.dst)])["bytes"] - met.bytes
        if not scene.run.network.is_change(scene.rule, self.pair(scene)):
            raise NoEffect(f"the link has had these conditions before: {self.link()}")
        return self.prove(scene)

    def undo(self, scene: Scene) -> Effect:
        """Take it away and count what came by meanwhile."""
        if scene.rule is not None:
            scene.rule.remove()
        seen = traffic(scene, self.struck(scene))
        before = scene.memory.get("before", {})
        came = {name: count - before.get(name, 0) for name, count in seen.items()}
        traffic_of = ["bytes", "connections", "refused", "resets", "lost"] + ["packets"] * self.link().is_of_cables
        if self.needs_traffic and not any(came[name] for name in traffic_of):
            raise NoEffect("nothing came by on the link while it was in force")
        return came

    def struck(self, scene: Scene) -> list[tuple[str, str]]:
        """The directed links that it changes."""
        pairs = self.link().pairs(scene.run.topology)
        return pairs if self.one_way else sorted({*pairs, *((dst, src) for src, dst in pairs)})

    def pair(self, scene: Scene) -> tuple[str, str]:
        """The link that is probed: the one whose trigger was met, or the first."""
        if scene.rule is not None and scene.rule.fired:
            return scene.rule.fired[0].src, scene.rule.fired[0].dst
        return self.link().pairs(scene.run.topology)[0]


def traffic(scene: Scene, pairs: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Sums of the counters of these directed links."""
    try:
        counters = scene.run.network.counters()
    except NetworkEnded as error:
        raise NoEffect(str(error)) from None
    seen = [counters[pair] for pair in pairs if pair in counters]
    names = [name for name in LinkCounters.__struct_fields__ if name not in ("src", "dst", "seconds", "queued")]
    return {name: sum(getattr(link, name) for link in seen) for name in names}


def probe(scene: Scene, pair: tuple[str, str], seconds: float = 5.0, *, steady: bool = False) -> float | str:
    """The round trip in seconds, or `refused`, or `silent` when nothing comes back in time."""
    try:
        return scene.run.network.probe(*pair, seconds, lambda: scene.out_of_time, steady=steady)
    except LinkRefused:
        return "refused"
    except DeadlineExceeded:
        return "silent"


def cut_off(scene: Scene, pair: tuple[str, str], wanted: str) -> Effect:
    """Prove by a probe that nothing passes."""
    seen = probe(scene, pair, _PROBE_SECONDS)
    if seen != wanted:
        raise NoEffect(f"a probe from {pair[0]} to {pair[1]} was {seen}, not {wanted}")
    return {"probe": seen}
