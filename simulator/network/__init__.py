"""The network between tasks: conditions per directed link, kept by a relay process or by the kernel between hosts."""

from simulator.network.addresses import hold_addresses
from simulator.network.helper import NetworkEnded
from simulator.network.hosts import Hosts, HostsUnavailable, KeeperEnded
from simulator.network.link import JITTER_KINDS, Link
from simulator.network.network import Network, Rule
from simulator.network.options import HOSTS_TIER, NETWORK_VARIABLE, TIERS, NetworkOptions, default_tier, network_causes
from simulator.network.relay import LinkRefused, RelayEnded
from simulator.wire.network import Fired, LinkCounters

__all__ = [
    "HOSTS_TIER",
    "JITTER_KINDS",
    "NETWORK_VARIABLE",
    "TIERS",
    "Fired",
    "Hosts",
    "HostsUnavailable",
    "KeeperEnded",
    "Link",
    "LinkCounters",
    "LinkRefused",
    "Network",
    "NetworkEnded",
    "NetworkOptions",
    "RelayEnded",
    "Rule",
    "default_tier",
    "hold_addresses",
    "network_causes",
]
