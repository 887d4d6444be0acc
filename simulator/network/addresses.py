"""Where each task's server listens."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from simulator.machines.local.ports import hold_ports
from simulator.topology import Topology
from simulator.wire.hosts import plan_hosts

__all__ = ["hold_addresses", "host_addresses"]


def host_addresses(topology: Topology) -> dict[str, str]:
    """`host:port` of each task with an address, where each has a host of its own: the same port on every host.

    Raises:
        UsageError: there are no hosts for such a topology.
    """
    return {host.task: host.server for host in plan_hosts(topology) if host.linked}


@contextlib.contextmanager
def hold_addresses(topology: Topology, *, hosts: bool) -> Iterator[dict[str, str]]:
    """`host:port` of each task with an address: the same port on each one's own host, else a held port of this machine.

    Raises:
        PortsUnavailable: no port could be held.
        UsageError: there are no hosts for such a topology.
    """
    if hosts:
        yield host_addresses(topology)
        return
    with hold_ports(topology.networked) as ports:
        yield {task: f"127.0.0.1:{port}" for task, port in ports.items()}
