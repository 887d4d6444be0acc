"""Names and addresses of the hosts that tasks get, and the clusters for which there can be hosts."""

from __future__ import annotations

import ipaddress

import msgspec

from simulator.errors import UsageError
from simulator.topology import Topology

# Every task's server listens on the same port, each at an address of its own.
PORT = 2222
# Where the keeper sends probes back (RFC 862).
ECHO_PORT = 7
# From the range for benchmarks of network devices (RFC 2544), which nobody routes.
_FIRST = ipaddress.IPv4Address("198.18.0.1")
# Each pair of hosts has a cable of its own.
_MOST = 32


class Host(msgspec.Struct, frozen=True):
    """The host of one task.

    Attributes:
        task: the task.
        name: its host name, `worker-1` for `worker:1`, which the other hosts know.
        address: its IP address, apart from that of its loopback interface.
        linked: whether it has cables to the other hosts; an evaluator has no address in the cluster and none.
    """

    task: str
    name: str
    address: str
    linked: bool

    @property
    def server(self) -> str:
        """`host:port` of the task's server."""
        return f"{self.name}:{PORT}"


def can_have_hosts(topology: Topology) -> bool:
    """Whether there are hosts for such a topology."""
    return 0 < len(topology.networked) <= _MOST


def plan_hosts(topology: Topology) -> tuple[Host, ...]:
    """A host for every task.

    Raises:
        UsageError: one local process, or too many tasks.
    """
    if not topology.networked:
        raise UsageError("one local process has no network; network=namespaces needs a cluster, such as worker=2")
    if len(topology.networked) > _MOST:
        raise UsageError(
            f"network=namespaces is for up to {_MOST} tasks, since each pair gets a cable; {topology} has "
            f"{len(topology.networked)}"
        )
    return tuple(
        Host(task, task.replace(":", "-"), str(_FIRST + index), linked=task in topology.networked)
        for index, task in enumerate(topology.tasks)
    )


def table_of_names(hosts: tuple[Host, ...]) -> str:
    """The hosts in the form of `/etc/hosts`."""
    lines = ["127.0.0.1 localhost", "::1 localhost", *(f"{host.address} {host.name}" for host in hosts if host.linked)]
    return "".join(f"{line}\n" for line in lines)
