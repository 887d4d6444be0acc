"""A host of its own for every task, made of Linux namespaces; see docs/network.md."""

from simulator.network.hosts.hosts import Hosts, HostsUnavailable, KeeperEnded
from simulator.network.hosts.plan import Host, plan_hosts

__all__ = ["Host", "Hosts", "HostsUnavailable", "KeeperEnded", "plan_hosts"]
