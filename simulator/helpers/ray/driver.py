"""The driver: places an actor on each node that a run wants, and carries bytes between it and the run's socket for it.

A process of its own, because Ray takes over signals of a driver's, has threads in it, and can be in it only once. In
each direction one call is under way at a time: several are not carried out in the order in which they were made.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from simulator.helpers.ray import carrier
from simulator.threads import Worker
from simulator.wire.ray import Joined, SitesWanted

_READ_BYTES_MAX = 1 << 20
_NAMES = ("NodeName", "NodeManagerAddress", "NodeManagerHostname")


def main(text: str) -> None:
    """Join what is wanted, until the run has no more use for it."""
    wanted = msgspec.json.decode(text, type=SitesWanted)
    control = socket.socket(fileno=wanted.control)
    try:
        actors = _actors(wanted)
    except Exception as error:  # noqa: BLE001 - whatever Ray raises is what the user has to read
        control.sendall(msgspec.json.encode(Joined(_told(error))) + b"\n")
        os._exit(1)
    control.sendall(msgspec.json.encode(Joined()) + b"\n")
    for name, number, actor in zip(wanted.names, wanted.sockets, actors, strict=True):
        stream = socket.socket(fileno=number)
        why = Path(wanted.folder, f"{name}.why")
        Worker.started(f"write-{name}", partial(_write, stream, actor))
        Worker.started(f"read-{name}", partial(_read, stream, actor, why))
    with contextlib.suppress(OSError):
        control.recv(1)
    _end(actors)


def _actors(wanted: SitesWanted) -> list[Any]:
    """One on each node; they begin to start."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ray.init(address="auto", log_to_driver=False, logging_level="error", namespace="lockstep")
    ray.cloudpickle.register_pickle_by_value(carrier)
    # One thread for each of its methods, and no share of what the node has: tasks are not Ray's to count.
    kind = ray.remote(num_cpus=0, max_concurrency=3)(carrier.Carrier)
    return [
        kind.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(wanted.site)
        for node in chosen(ray.nodes(), wanted.names, anywhere=wanted.anywhere)
    ]


def _told(error: Exception) -> str:
    """What is wrong; that a cluster asks for a token stands at the end of what it was caused by."""
    why = str(error) or type(error).__name__
    cause = str(error.__cause__ or "").strip().splitlines()
    return f"{why}: {cause[-1]}" if cause else why


def _write(stream: socket.socket, actor: Any) -> None:
    """Have the site read what comes from the run."""
    import ray

    # That it has gone is seen by whoever reads.
    with contextlib.suppress(OSError, ray.exceptions.RayError):
        while data := stream.recv(_READ_BYTES_MAX):
            ray.get(actor.write.remote(data))
        ray.get(actor.write.remote(b""))


def _read(stream: socket.socket, actor: Any, why: Path) -> None:
    """Tell the run what comes from the site."""
    import ray

    try:
        while data := ray.get(actor.read.remote()):
            stream.sendall(data)
        why.write_text(ray.get(actor.end.remote()))
    except OSError:  # the run has gone
        return
    except ray.exceptions.RayError as error:
        why.write_text(str(error))
    with contextlib.suppress(OSError):
        stream.shutdown(socket.SHUT_RDWR)


def _end(actors: list[Any]) -> None:
    import ray

    for actor in actors:
        ray.kill(actor)
    ray.shutdown()
    os._exit(0)


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
