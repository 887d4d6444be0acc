"""What kind of network a cluster gets, checked before anything starts."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass

from simulator.errors import TaskError, UsageError
from simulator.network.link import Link
from simulator.network.network import Network
from simulator.topology import Topology
from simulator.wire.hosts import can_have_hosts, plan_hosts

LOOPBACK, NAMESPACES = NETWORKS = ("loopback", "namespaces")
# How a whole session, such as `pytest scenarios/ --network=namespaces`, gets another network than loopback.
NETWORK_VARIABLE = "LOCKSTEP_NETWORK"


@dataclass(frozen=True)
class NetworkOptions:
    """The network of a cluster.

    Attributes:
        kind: `loopback`: all tasks share this machine's loopback interface. `namespaces`: each has a host of its own.
        links: conditions from the start.
        relay: whether connections go through a relay.
    """

    kind: str = "loopback"
    links: tuple[Link, ...] = ()
    relay: bool = False

    @classmethod
    def of(cls, kind: str, links: Iterable[Link], *, relay: bool, topology: Topology) -> NetworkOptions:
        """Check what is asked for.

        Args:
            kind: one of `NETWORKS`.
            links: conditions from the start.
            relay: whether something other than the links needs a relay.
            topology: the tasks.

        Raises:
            UsageError: a link names no tasks of this topology or cannot be had in this network, or there is no network.
        """
        found = tuple(links)
        if kind not in NETWORKS:
            raise UsageError(f"network={kind!r} is unknown; it is one of {', '.join(NETWORKS)}")
        hosts = kind == NAMESPACES
        if hosts:
            plan_hosts(topology)
        if (found or relay) and not topology.networked:
            raise UsageError(
                "one local process has no network; give links to a cluster, for example Topology(worker=2)"
            )
        for link in found:
            if not isinstance(link, Link):
                raise UsageError(f"links are objects such as Link(src='worker', dst='ps', delay='20ms'), not {link!r}")
            link.pairs(topology)
            link.check_network(hosts=hosts)
            link.check_lasting()
        return cls(kind, found, relay or any(link.needs_relay(hosts=hosts) for link in found))

    @property
    def hosts(self) -> bool:
        """Whether each task has a host of its own."""
        return self.kind == NAMESPACES


def default_network(topology: Topology) -> str:
    """The network of a cluster whose maker names none: see `NETWORK_VARIABLE`."""
    wanted = os.environ.get(NETWORK_VARIABLE, "")
    return wanted if wanted and can_have_hosts(topology) else NETWORKS[0]


def network_causes(network: Network | None, *, alone: bool) -> tuple[TaskError, ...]:
    """What the network has to say against a run; links without an effect only if `alone`, with no other failure."""
    if network is None:
        return ()
    if name := network.failed:
        kind = f"{name.capitalize()}Ended"
        return (TaskError("network", kind, f"the {name} {network.problem}", at=network.ended_at or 0.0),)
    now = time.monotonic()
    found = network.without_effect() if alone else []
    return tuple(TaskError("network", "LinkWithoutEffect", text, at=now) for text in found)
