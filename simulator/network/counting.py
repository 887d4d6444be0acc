"""Counters of one directed link, of which several helpers have counted parts."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from simulator.wire.network import LinkCounters

__all__ = ["joined", "summed"]


def summed(counters: Iterable[LinkCounters]) -> tuple[LinkCounters, ...]:
    """Each directed link once: of each machine, and before and after tasks have moved, somebody else has counted."""
    found: dict[tuple[str, str], LinkCounters] = {}
    for counted in counters:
        link = counted
        if (before := found.get((link.src, link.dst))) is not None:
            numbers = [name for name in LinkCounters.__struct_fields__ if name not in ("src", "dst", "seconds")]
            more = {name: getattr(before, name) + getattr(link, name) for name in numbers}
            # Each knows its own first and last byte.
            link = msgspec.structs.replace(link, **more, seconds=max(before.seconds, link.seconds))
        found[link.src, link.dst] = link
    return tuple(found[pair] for pair in sorted(found))


def joined(relayed: Iterable[LinkCounters], cables: Iterable[LinkCounters]) -> tuple[LinkCounters, ...]:
    """Bytes as the relay has counted them, packets as the cables have, of which datagrams come past the relay."""
    found = {(link.src, link.dst): link for link in relayed}
    for cable in cables:
        if (link := found.get((cable.src, cable.dst))) is not None or cable.packets:
            link = link or LinkCounters(cable.src, cable.dst)
            found[link.src, link.dst] = msgspec.structs.replace(link, packets=cable.packets, lost=cable.lost)
    return tuple(found[pair] for pair in sorted(found))
