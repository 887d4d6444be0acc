"""A host of its own for every task, made of Linux namespaces; see docs/network.md."""

from simulator.network.hosts.hosts import Hosts, HostsUnavailable, KeeperEnded
from simulator.network.hosts.plan import Host, can_have_hosts, plan_hosts

__all__ = ["Host", "Hosts", "HostsUnavailable", "KeeperEnded", "can_have_hosts", "plan_hosts"]
