"""Which node of a Ray cluster each machine of a run is."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["NoSuchNode", "chosen"]

_NAMES = ("NodeName", "NodeManagerAddress", "NodeManagerHostname")


class NoSuchNode(Exception):
    """Raised when a cluster has not the nodes that are wanted."""


def chosen(nodes: Iterable[Mapping[str, Any]], names: Sequence[str], *, anywhere: bool) -> list[str]:
    """The id of a node for each name, none twice.

    Args:
        nodes: what `ray.nodes()` tells.
        names: what the run calls its machines.
        anywhere: any nodes will do; those that Ray gives no work, as a head often is, last. Else each is the one that
            has this name, address or host name.

    Raises:
        NoSuchNode: there are fewer, or none of that name, or several.
    """
    alive = sorted((node for node in nodes if node["Alive"]), key=_order)
    known = ", ".join(dict.fromkeys(str(node["NodeName"]) for node in alive)) or "none"
    if anywhere:
        if len(alive) < len(names):
            raise NoSuchNode(f"{len(names)} nodes are wanted, and {len(alive)} of the cluster's are alive: {known}")
        return [node["NodeID"] for node in alive[: len(names)]]
    found = [_named(alive, name, known) for name in names]
    for index, node in enumerate(found):
        if node in found[:index]:
            raise NoSuchNode(f"{names[found.index(node)]} and {names[index]} are the same node; give each node once")
    return found


def _named(alive: Sequence[Mapping[str, Any]], name: str, known: str) -> str:
    ids = [node["NodeID"] for node in alive if name in [node[each] for each in _NAMES]]
    if len(ids) != 1:
        how = f"{len(ids)} nodes are called {name}" if ids else f"no node that is alive is called {name}"
        raise NoSuchNode(f"{how}; the cluster has {known}")
    return str(ids[0])


def _order(node: Mapping[str, Any]) -> tuple[bool, int, int, str]:
    address = ipaddress.ip_address(node["NodeManagerAddress"])
    return not node["Resources"].get("CPU"), address.version, int(address), node["NodeID"]
