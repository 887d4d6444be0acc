"""The cables between hosts: a veth pair for each two, with tbf at the sending end and nftables at the receiving one.

What arrives is dropped there and not where it is sent: a packet that the sender's own nftables drop is an error of its
system call, and TCP would notice.
"""

from __future__ import annotations

import math
import os
import struct
from dataclasses import dataclass, field
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.nfnetlink.nftsocket import Cmp, Meta
from pyroute2.nftables.expressions import genex, verdict
from pyroute2.nftables.main import NFTables

from simulator import _kernel
from simulator.network.hosts.plan import Host
from simulator.network.protocol import LinkCounters

__all__ = ["Cables", "Network"]

_TABLE = "lockstep"
_ACCEPT, _DROP = 1, 0
_TCP = b"\x06"
_REGISTER = 1
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
class Network:
    """The network namespace of one host, and the kernel's ear in it."""

    host: Host
    namespace: int = field(init=False)

    def __post_init__(self) -> None:
        _kernel.unshare(_kernel.NEW_NETWORK)
        self.namespace = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        # Both stay in this namespace, whichever the process enters later.
        self.links = IPRoute()
        self.filters = NFTables()
        loopback = self.links.link_lookup(ifname="lo")[0]
        self.links.addr("add", index=loopback, address=self.host.address, prefixlen=32)
        self.links.link("set", index=loopback, state="up")
        self.filters.table("add", name=_TABLE)

    def enter(self) -> None:
        """Have this process make its next sockets here."""
        _kernel.set_namespace(self.namespace, _kernel.NEW_NETWORK)


@dataclass
class _Seen:
    packets: int = 0
    bytes: int = 0

    def add(self, other: _Seen) -> None:
        self.packets += other.packets
        self.bytes += other.bytes


@dataclass
class _End:
    """One end of a cable, which sends from `src` and belongs to the directed link from `src` to `dst`."""

    src: Network
    dst: Network
    index: int
    rate: float = 0.0
    loss: float = 0.0
    # Counted by rules that have been replaced, and by queues that have.
    arrived: _Seen = field(default_factory=_Seen)
    dropped: _Seen = field(default_factory=_Seen)
    overflowed: int = 0

    @property
    def chain(self) -> str:
        return f"from-{self.src.host.name}"

    # -- at the sending end

    def limit(self, rate: float) -> None:
        """Send at most so many bytes a second; 0 is without a limit."""
        if rate == self.rate:
            return
        if self.rate:
            self.overflowed += self._overflow()
            self.src.links.tc("del", index=self.index, parent=_ROOT)
        if rate:
            burst = max(_BURST_BYTES_MIN, math.ceil(rate * _BURST_SECONDS))
            words = {
                "rate": f"{math.ceil(rate * 8)}bit",
                "burst": burst,
                "limit": burst + math.ceil(rate * _QUEUE_SECONDS),
            }
            self.src.links.tc("add", "tbf", index=self.index, handle=_QUEUE, **words)
        self.rate = rate

    def _overflow(self) -> int:
        if not self.rate:
            return 0
        for queue in self.src.links.get_qdiscs(index=self.index):
            if queue.get_attr("TCA_KIND") == "tbf":
                return int(queue.get_attr("TCA_STATS2").get_attr("TCA_STATS_QUEUE")["drops"])
        return 0

    # -- at the receiving end

    def filter(self, loss: float) -> None:
        """Lose each arriving packet with this probability."""
        arrived, dropped = self._counted()
        self.arrived.add(arrived)
        self.dropped.add(dropped)
        self.dst.filters.rule("del", table=_TABLE, chain=self.chain)
        self._count(loss)
        if 0 < loss < 1 or 0 < self.loss < 1:
            joined = 1 if 0 < loss < 1 else _JOINED_MAX
            self.src.links.link("set", index=self.index, gso_max_segs=joined)
        self.loss = loss

    def prepare(self) -> None:
        """Begin to count what arrives."""
        self.dst.filters.chain("add", table=_TABLE, name=self.chain, hook="prerouting", type="filter", policy=_ACCEPT)
        self._count(0.0)

    def _count(self, loss: float) -> None:
        """Two rules count TCP, first all and then the lost; what else there is, such as probes, is lost uncounted."""
        self._rule(_is_tcp(), _counter())
        if loss:
            self._rule(_is_tcp(), _by_chance(loss), _counter(), verdict(_DROP))
            self._rule(_by_chance(loss), verdict(_DROP))

    def _rule(self, *expressions: list[Any]) -> None:
        arriving = _is_from(self.src.host.name)
        self.dst.filters.rule("add", table=_TABLE, chain=self.chain, expressions=(arriving, *expressions))

    def _counted(self) -> tuple[_Seen, _Seen]:
        counters = [
            expression.get_attr("NFTA_EXPR_DATA")
            for rule in self.dst.filters.get_rules()
            if rule.get_attr("NFTA_RULE_CHAIN") == self.chain
            for expression in rule.get_attr("NFTA_RULE_EXPRESSIONS")
            if expression.get_attr("NFTA_EXPR_NAME") == "counter"
        ]
        seen = [_Seen(one.get_attr("NFTA_COUNTER_PACKETS"), one.get_attr("NFTA_COUNTER_BYTES")) for one in counters]
        return seen[0], seen[1] if len(seen) > 1 else _Seen()

    def counters(self) -> LinkCounters:
        """What the directed link has done so far; bytes are those of packets, with their headers."""
        arrived, dropped = self._counted()
        arrived.add(self.arrived)
        dropped.add(self.dropped)
        overflowed = self.overflowed + self._overflow()
        return LinkCounters(
            src=self.src.host.task,
            dst=self.dst.host.task,
            bytes=arrived.bytes,
            delivered=arrived.bytes - dropped.bytes,
            dropped=dropped.bytes,
            packets=arrived.packets + overflowed,
            lost=dropped.packets + overflowed,
        )


class Cables:
    """A cable between each two linked hosts."""

    def __init__(self, networks: dict[str, Network]) -> None:
        linked = [network for network in networks.values() if network.host.linked]
        for number, one in enumerate(linked):
            for other in linked[number + 1 :]:
                # Each end is called after the host at the other one.
                peer = {"ifname": one.host.name, "net_ns_fd": other.namespace}
                one.links.link("add", ifname=other.host.name, kind="veth", peer=peer)
        self.ends: dict[tuple[str, str], _End] = {}
        for one in linked:
            for other in linked:
                if one is not other:
                    self.ends[one.host.task, other.host.task] = _plug_in(one, other)

    def counters(self) -> list[LinkCounters]:
        """The counters of every directed link."""
        return [end.counters() for end in self.ends.values()]


def _plug_in(src: Network, dst: Network) -> _End:
    index = src.links.link_lookup(ifname=dst.host.name)[0]
    src.links.link("set", index=index, state="up")
    src.links.route("add", dst=f"{dst.host.address}/32", oif=index, prefsrc=src.host.address, scope="link")
    end = _End(src, dst, index)
    end.prepare()
    return end


# -- expressions of nftables, each a list as pyroute2 wants it


def _compare(how: Cmp, data: bytes) -> dict[str, Any]:
    value = {"attrs": [("NFTA_DATA_VALUE", data)]}
    return dict(genex("cmp", {"sreg": _REGISTER, "op": how, "data": value}))


def _load(what: Meta) -> dict[str, Any]:
    return dict(genex("meta", {"dreg": _REGISTER, "key": what}))


def _is_from(name: str) -> list[dict[str, Any]]:
    return [_load(Meta.NFT_META_IIFNAME), _compare(Cmp.NFT_CMP_EQ, name.encode().ljust(16, b"\0"))]


def _is_tcp() -> list[dict[str, Any]]:
    return [_load(Meta.NFT_META_L4PROTO), _compare(Cmp.NFT_CMP_EQ, _TCP)]


def _by_chance(probability: float) -> list[dict[str, Any]]:
    """True with this probability: 32 random bits are less than this part of their range."""
    if probability >= 1:
        return []
    least = struct.pack(">I", int(probability * 2**32))
    return [_load(Meta.NFT_META_PRANDOM), _compare(Cmp.NFT_CMP_LT, least)]


def _counter() -> list[dict[str, Any]]:
    return [dict(genex("counter", {"packets": 0, "bytes": 0}))]
