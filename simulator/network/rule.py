"""A link's conditions on a running network."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

from simulator.network.helper import NetworkEnded
from simulator.network.link import Link
from simulator.topology import Topology
from simulator.wire.network import Fired


@dataclass
class LinkRule:
    """A link's conditions as installed on a running network; leaving its context, or `remove`, takes them away.

    Attributes:
        number: of the rule.
        link: what was asked for.
        topology: of the network.
        end: takes the conditions of a rule away.
        fired: for each directed link on which a trigger was met, what it had carried then.
    """

    number: int
    link: Link
    topology: Topology
    end: Callable[[LinkRule], None]
    fired: list[Fired] = field(default_factory=list)

    @property
    def waits(self) -> bool:
        """Whether its trigger has not been met yet on one of its links."""
        pairs = self.link.pairs(self.topology)
        return self.link.is_triggered and len({(fired.src, fired.dst) for fired in self.fired}) < len(pairs)

    def said(self, src: str, dst: str) -> dict[str, object]:
        """The conditions that it has put in force from `src` to `dst`, by name."""
        forth, back = (src, dst), (dst, src)
        pairs = self.link.pairs(self.topology)
        if self.link.is_triggered:
            pairs = [(met.src, met.dst) for met in self.fired]
        if forth not in pairs and (self.link.one_way or back not in pairs):
            return {}
        conditions = self.link.conditions
        return {
            name: value for name in conditions.__struct_fields__ if (value := getattr(conditions, name)) is not None
        }

    def remove(self) -> None:
        """Take the conditions away; links go back to what the other rules say."""
        self.end(self)

    def __enter__(self) -> LinkRule:
        return self

    def __exit__(self, *raised: object) -> None:
        # With those who keep it gone, so is the rule.
        with contextlib.suppress(NetworkEnded):
            self.remove()
