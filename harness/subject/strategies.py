"""The catalogue: every strategy name, the cluster it needs, and how a task builds it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from simulator import Topology, UsageError
from simulator.network import TIERS

__all__ = ["HARDWARE", "StrategyCase", "catalogue", "strategy_case"]

HARDWARE = ("cpu", "gpu", "tpu")
# Kinds whose tasks are a cluster, so that there is a network between them.
_CLUSTERED = ("multi_worker", "parameter_server")

_FORMS = {
    "default": r"default",
    "one_device": r"one_device",
    "mirrored": r"mirrored-(?P<replicas>[1-9]\d?)(?::(?P<option>hierarchical_copy|reduction_to_one_device|nccl))?",
    "central_storage": r"central_storage-(?P<replicas>[1-9]\d?)",
    "multi_worker": r"multi_worker-(?P<workers>[1-9]\d?)(?:x(?P<replicas>[1-9]\d?))?(?::(?P<option>ring|auto|nccl))?",
    "parameter_server": (
        r"parameter_server-(?P<workers>[1-9]\d?)w(?P<ps>[1-9]\d?)p(?::(?P<option>min_size|max_size|fixed_shards))?"
    ),
    "tpu": r"tpu",
}
_ACCEPTED = (
    "default, one_device, mirrored-R, central_storage-R, multi_worker-W, multi_worker-WxD, parameter_server-WwPp, tpu; "
    "options: mirrored-2:hierarchical_copy, :reduction_to_one_device, :nccl; multi_worker-2:ring, :auto, :nccl; "
    "parameter_server-2w2p:min_size, :max_size, :fixed_shards"
)
# One of each kind and each option, for `lockstep strategies` and for a matrix over everything.
_CATALOGUE = (
    "default",
    "one_device",
    "mirrored-1",
    "mirrored-2",
    "mirrored-3",
    "mirrored-4",
    "mirrored-2:hierarchical_copy",
    "mirrored-2:reduction_to_one_device",
    "mirrored-2:nccl",
    "central_storage-2",
    "multi_worker-2",
    "multi_worker-3",
    "multi_worker-4",
    "multi_worker-2x2",
    "multi_worker-2:ring",
    "multi_worker-2:nccl",
    "parameter_server-1w1p",
    "parameter_server-2w1p",
    "parameter_server-2w2p",
    "parameter_server-2w2p:min_size",
    "parameter_server-2w2p:max_size",
    "parameter_server-2w2p:fixed_shards",
    "tpu",
)


@dataclass(frozen=True)
class StrategyCase:
    """One strategy under one name.

    Attributes:
        name: as in pytest ids, on the command line and in reports.
        kind: the part before the first dash, for example `multi_worker`.
        workers: worker tasks, 1 where the strategy knows no workers.
        devices: devices each worker computes on.
        ps: parameter-server tasks.
        option: the suffix after the colon, or `None`.
        hardware: `cpu`, `gpu` or `tpu`.
        network: `loopback` or `namespaces`, as of `simulator.Cluster`; None for the default of the session.
    """

    name: str
    kind: str
    workers: int = 1
    devices: int = 1
    ps: int = 0
    option: str | None = None
    hardware: str = "cpu"
    network: str | None = None

    @property
    def synchronous(self) -> bool:
        """Whether every step waits for all replicas. Parameter-server training does not."""
        return self.kind != "parameter_server"

    @property
    def replicas(self) -> int:
        """Replicas in sync, as TensorFlow counts them: a parameter-server worker is a replica of its own."""
        return self.devices if self.kind == "parameter_server" else self.workers * self.devices

    @property
    def clients(self) -> tuple[str, ...]:
        """Tasks that run the program."""
        return self.topology.clients

    @property
    def needs(self) -> str | None:
        """Hardware without which this strategy cannot run, in words; `None` if a CPU will do."""
        if self.kind == "tpu":
            return "a TPU"
        if self.option == "nccl":
            return f"{self.devices * self.workers} GPUs"
        return {"gpu": "a GPU", "tpu": "a TPU"}.get(self.hardware)

    @property
    def topology(self) -> Topology:
        """The cluster this strategy runs on."""
        kind = "gpu" if self.hardware == "gpu" or self.option == "nccl" else "cpu"
        devices = f"{kind}:{self.devices}"
        if self.kind == "multi_worker":
            return Topology(worker=self.workers, devices=devices)
        if self.kind == "parameter_server":
            return Topology(chief=1, worker=self.workers, ps=self.ps, devices={"worker": devices})
        return Topology(devices=devices)

    def build(self) -> Any:
        """Create the `tf.distribute.Strategy`; called in a client task, never in the parent."""
        from harness.subject import building

        return building.build(self)

    def __str__(self) -> str:
        return self.name


def strategy_case(name: str | StrategyCase, hardware: str = "cpu", network: str | None = None) -> StrategyCase:
    """The case for a strategy name.

    Args:
        name: for example `mirrored-2` or `multi_worker-2x2:ring`.
        hardware: `cpu`, `gpu` or `tpu`.
        network: what the tasks of a cluster are joined by, as of `simulator.Cluster`; a single process has no network.

    Raises:
        UsageError: the name, the hardware or the network is unknown; the message lists the accepted forms.
    """
    if isinstance(name, StrategyCase):
        return name
    if hardware not in HARDWARE:
        raise UsageError(f"hardware {hardware!r} is unknown; accepted are {', '.join(HARDWARE)}")
    if network not in (None, *TIERS):
        raise UsageError(f"network {network!r} is unknown; accepted are {', '.join(TIERS)}")
    for kind, form in _FORMS.items():
        if match := re.fullmatch(form, str(name)):
            parts = match.groupdict()
            return StrategyCase(
                name=name,
                kind=kind,
                workers=int(parts.get("workers") or 1),
                devices=int(parts.get("replicas") or 1),
                ps=int(parts.get("ps") or 0),
                option=parts.get("option"),
                hardware=hardware,
                network=network if kind in _CLUSTERED else None,
            )
    raise UsageError(f"strategy {name!r} is unknown; accepted are {_ACCEPTED}")


def catalogue(hardware: str = "cpu") -> tuple[StrategyCase, ...]:
    """One case of every kind and option."""
    return tuple(strategy_case(name, hardware) for name in _CATALOGUE)
