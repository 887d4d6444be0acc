"""The network between tasks: conditions per directed link, kept by a relay process or by the kernel between hosts."""

from simulator.network.helper import NetworkEnded
from simulator.network.hosts import Hosts, HostsUnavailable, KeeperEnded, hold_addresses, host_addresses
from simulator.network.link import JITTER_KINDS, Link
from simulator.network.network import Network
from simulator.network.options import (
    LOOPBACK,
    NAMESPACES,
    NETWORK_VARIABLE,
    NETWORKS,
    NetworkOptions,
    default_network,
    network_causes,
)
from simulator.network.relay import LinkRefused, RelayEnded
from simulator.network.rule import LinkRule
from simulator.wire.network import Fired, LinkCounters

__all__ = [
    "JITTER_KINDS",
    "LOOPBACK",
    "NAMESPACES",
    "NETWORKS",
    "NETWORK_VARIABLE",
    "Fired",
    "Hosts",
    "HostsUnavailable",
    "KeeperEnded",
    "Link",
    "LinkCounters",
    "LinkRefused",
    "LinkRule",
    "Network",
    "NetworkEnded",
    "NetworkOptions",
    "RelayEnded",
    "default_network",
    "hold_addresses",
    "host_addresses",
    "network_causes",
]
