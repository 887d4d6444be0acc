"""The cables between hosts: a veth pair for each two, with tbf at the sending end and nftables at the receiving one.

What arrives is dropped there and not where it is sent: a packet that the sender's own nftables drop is an error of its
system call, and TCP would notice.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyroute2 import IPRoute

from simulator import kernel
from simulator.helpers.hosts.filters import Filters, PacketCount
from simulator.wire.hosts import Host
from simulator.wire.network import LinkCounters

# iproute2's handle 1:, and the parent of a root queue
_QUEUE = 0x10000
_ROOT = 0xFFFFFFFF
# As the relay has it: what a slow link may have taken ahead of its rate. Then the queue is full, and packets are lost.
_QUEUE_SECONDS = 0.05
_BURST_SECONDS = 0.005
_BURST_BYTES_MIN = 2 * 1514
# The kernel joins packets of a stream on a cable; where some shall be lost, each has to be one by itself.
_JOINED_MAX = 65535


@dataclass
class Inside:
    """The network namespace of one host, and the kernel's ear in it."""

    host: Host
    namespace: int = field(init=False)

    def __post_init__(self) -> None:
        kernel.unshare(kernel.NEW_NETWORK)
        self.namespace = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        # Both stay in this namespace, whichever the process enters later.
        self.links = IPRoute()
        self.filters = Filters()
        loopback = self.links.link_lookup(ifname="lo")[0]
        self.links.addr("add", index=loopback, address=self.host.address, prefixlen=32)
        self.links.link("set", index=loopback, state="up")

    def enter(self) -> None:
        """Have this process make its next sockets here."""
        kernel.set_namespace(self.namespace, kernel.NEW_NETWORK)


class _End:
    """One end of a cable: the directed link from the host that it sends from, `src`, to `dst`."""

    def __init__(self, src: Inside, dst: Inside) -> None:
        self.rate = 0.0
        self.loss = 0.0
        self._src = src
        self._dst = dst
        self._index = src.links.link_lookup(ifname=dst.host.name)[0]
        # Lost by queues that have been replaced.
        self._overflowed = 0
        src.links.link("set", index=self._index, state="up")
        words = {"oif": self._index, "prefsrc": src.host.address, "scope": "link"}
        src.links.route("add", dst=f"{dst.host.address}/32", **words)
        # Each end is called after the host at the other one.
        self._arrivals = dst.filters.watch(src.host.name)

    def limit(self, rate: float) -> None:
        """Send at most so many bytes a second; 0 is without a limit."""
        if rate == self.rate:
            return
        if self.rate:
            self._overflowed += self._overflow()
            self._src.links.tc("del", index=self._index, parent=_ROOT)
        if rate:
            burst = max(_BURST_BYTES_MIN, math.ceil(rate * _BURST_SECONDS))
            size = burst + math.ceil(rate * _QUEUE_SECONDS)
            words = {"rate": f"{math.ceil(rate * 8)}bit", "burst": burst, "limit": size}
            self._src.links.tc("add", "tbf", index=self._index, handle=_QUEUE, **words)
        self.rate = rate

    def lose(self, loss: float) -> None:
        """Lose each packet with this probability."""
        if loss == self.loss:
            return
        self._arrivals.lose(loss)
        if 0 < loss < 1 or 0 < self.loss < 1:
            joined = 1 if 0 < loss < 1 else _JOINED_MAX
            self._src.links.link("set", index=self._index, gso_max_segs=joined)
        self.loss = loss

    def counters(self, arrivals: Mapping[str, Sequence[PacketCount]]) -> LinkCounters:
        """What the directed link has done so far; bytes are those of packets, with their headers.

        Args:
            arrivals: the counters of the filters of `dst`.
        """
        arrived, lost = self._arrivals.counted(arrivals)
        overflowed = self._overflowed + self._overflow()
        return LinkCounters(
            src=self._src.host.task,
            dst=self._dst.host.task,
            bytes=arrived.bytes,
            delivered=arrived.bytes - lost.bytes,
            dropped=lost.bytes,
            packets=arrived.packets + overflowed,
            lost=lost.packets + overflowed,
        )

    def _overflow(self) -> int:
        """Packets for which the present queue had no room."""
        for queue in self._src.links.get_qdiscs(index=self._index) if self.rate else ():
            if queue.get_attr("TCA_KIND") == "tbf":
                return int(queue.get_attr("TCA_STATS2").get_attr("TCA_STATS_QUEUE")["drops"])
        return 0


class Cables:
    """A cable between each two linked hosts."""

    def __init__(self, hosts: dict[str, Inside]) -> None:
        linked = self._linked = [inside for inside in hosts.values() if inside.host.linked]
        for number, one in enumerate(linked):
            for other in linked[number + 1 :]:
                peer = {"ifname": one.host.name, "net_ns_fd": other.namespace}
                one.links.link("add", ifname=other.host.name, kind="veth", peer=peer)
        self.ends = {
            (one.host.task, other.host.task): _End(one, other) for one in linked for other in linked if one is not other
        }

    def counters(self) -> list[LinkCounters]:
        """The counters of every directed link."""
        arrivals = {inside.host.task: inside.filters.counters() for inside in self._linked}
        return [end.counters(arrivals[dst]) for (_, dst), end in self.ends.items()]
