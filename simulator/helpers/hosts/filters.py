"""What nftables does with packets that arrive: counts them, and loses some by chance."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyroute2.netlink.nfnetlink.nftsocket import Cmp, Meta
from pyroute2.nftables.expressions import genex, verdict
from pyroute2.nftables.main import NFTables

from simulator.wire.hosts import ECHO_PORT

_TABLE = "lockstep"
_ACCEPT, _DROP = 1, 0
# Packets pass the chains of the lower number first.
_FIRST, _THEN = 0, 1
_UDP = b"\x11"
_REGISTER = 1
# In the header of a datagram.
_TRANSPORT_HEADER = 2
_PORT_BYTES = 2
_SOURCE_PORT, _DESTINATION_PORT = 0, 2
_NAME_BYTES = 16


@dataclass
class PacketCount:
    """A count of packets."""

    packets: int = 0
    bytes: int = 0

    def __add__(self, other: PacketCount) -> PacketCount:
        return PacketCount(self.packets + other.packets, self.bytes + other.bytes)


class Filters:
    """The filters of the network namespace in which this is made."""

    def __init__(self) -> None:
        self.kernel = NFTables()
        self.kernel.table("add", name=_TABLE)

    def counters(self) -> dict[str, list[PacketCount]]:
        """What the counters of each chain show, in their order; the kernel hands out all chains at once."""
        found: dict[str, list[PacketCount]] = {}
        for rule in self.kernel.get_rules():
            for expression in rule.get_attr("NFTA_RULE_EXPRESSIONS"):
                if expression.get_attr("NFTA_EXPR_NAME") == "counter":
                    data = expression.get_attr("NFTA_EXPR_DATA")
                    seen = PacketCount(data.get_attr("NFTA_COUNTER_PACKETS"), data.get_attr("NFTA_COUNTER_BYTES"))
                    found.setdefault(rule.get_attr("NFTA_RULE_CHAIN"), []).append(seen)
        return found

    def watch(self, interface: str) -> Arrivals:
        """Begin to count what arrives on an interface."""
        return Arrivals(self, interface)

    def chain(self, name: str, priority: int) -> None:
        """Add a chain that every packet passes which arrives."""
        words = {"table": _TABLE, "hook": "prerouting", "type": "filter", "policy": _ACCEPT}
        self.kernel.chain("add", name=name, priority=priority, **words)


class Arrivals:
    """What arrives on one interface: a chain that counts all of it, and one that loses some and counts that.

    The first is never written again, so that no packet passes uncounted while the loss changes. Probes, which are no
    traffic of tasks, are lost as well and not counted.
    """

    def __init__(self, filters: Filters, interface: str) -> None:
        self._filters = filters
        self._interface = interface
        self._all, self._some = f"from-{interface}", f"lost-from-{interface}"
        # Counted by rules that have been replaced.
        self._lost = PacketCount()
        filters.chain(self._all, _FIRST)
        filters.chain(self._some, _THEN)
        for which in (_SOURCE_PORT, _DESTINATION_PORT):
            self._rule(self._all, _is_probe(which), verdict(_ACCEPT))
        self._rule(self._all, _counter())

    def lose(self, loss: float) -> None:
        """Lose each packet with this probability."""
        _, self._lost = self.counted(self._filters.counters())
        self._filters.kernel.rule("del", table=_TABLE, chain=self._some)
        if not loss:
            return
        for which in (_SOURCE_PORT, _DESTINATION_PORT):
            self._rule(self._some, _is_probe(which), _by_chance(loss), verdict(_DROP))
            self._rule(self._some, _is_probe(which), verdict(_ACCEPT))
        self._rule(self._some, _by_chance(loss), _counter(), verdict(_DROP))

    def counted(self, counters: Mapping[str, Sequence[PacketCount]]) -> tuple[PacketCount, PacketCount]:
        """Packets that have arrived, lost ones included, and those that were lost.

        Args:
            counters: as `Filters.counters` has just shown them.
        """
        return counters[self._all][0], sum(counters.get(self._some, ()), self._lost)

    def _rule(self, chain: str, *expressions: list[Any]) -> None:
        every = (_comes_by(self._interface), *expressions)
        self._filters.kernel.rule("add", table=_TABLE, chain=chain, expressions=every)


# -- expressions of nftables, each a list as pyroute2 wants it


def _comes_by(interface: str) -> list[Any]:
    return [_load(Meta.NFT_META_IIFNAME), _compare(Cmp.NFT_CMP_EQ, interface.encode().ljust(_NAME_BYTES, b"\0"))]


def _is_probe(which: int) -> list[Any]:
    """Whether this port of a datagram, of its two, is that of the keeper's echo."""
    where = {"dreg": _REGISTER, "base": _TRANSPORT_HEADER, "offset": which, "len": _PORT_BYTES}
    is_port = [genex("payload", where), _compare(Cmp.NFT_CMP_EQ, struct.pack(">H", ECHO_PORT))]
    return [_load(Meta.NFT_META_L4PROTO), _compare(Cmp.NFT_CMP_EQ, _UDP), *is_port]


def _by_chance(probability: float) -> list[Any]:
    """True with this probability: 32 random bits are less than this part of their range."""
    if probability >= 1:
        return []
    least = struct.pack(">I", int(probability * 2**32))
    return [_load(Meta.NFT_META_PRANDOM), _compare(Cmp.NFT_CMP_LT, least)]


def _counter() -> list[Any]:
    return [genex("counter", {"packets": 0, "bytes": 0})]


def _load(what: Meta) -> Any:
    return genex("meta", {"dreg": _REGISTER, "key": what})


def _compare(how: Cmp, data: bytes) -> Any:
    value = {"attrs": [("NFTA_DATA_VALUE", data)]}
    return genex("cmp", {"sreg": _REGISTER, "op": how, "data": value})
