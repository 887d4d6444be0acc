"""The catalogue: every strategy name, the cluster it needs, and how a task builds it. A new file is a new kind."""

from __future__ import annotations

import re
from functools import cache

from _lockstep.kinds import kinds_of
from harness.subject.machines import OnMachines, Over
from harness.subject.strategies.protocol import StrategyCase, StrategyKind
from simulator import UsageError
from simulator.errors import meant
from simulator.network import NETWORKS

__all__ = [
    "HARDWARE",
    "StrategyCase",
    "StrategyKind",
    "all_kinds",
    "catalogue",
    "has_servers",
    "kind_of",
    "strategy_case",
]

HARDWARE = ("cpu", "gpu", "gpu-simulated", "tpu", "tpu-rehearsed")


@cache
def all_kinds() -> dict[str, StrategyKind]:
    """Every kind of this package by its name, in the order of reports."""
    kinds: list[StrategyKind] = [module.KIND for module in kinds_of(__name__)]
    return {kind.name: kind for kind in sorted(kinds, key=lambda kind: (kind.order, kind.name))}


def kind_of(name: str) -> StrategyKind | None:
    """The kind of a strategy's name; None for one that another version of Lockstep may have known."""
    return all_kinds().get(re.split("[-:]", name)[0])


def has_servers(name: str) -> bool:
    """Whether the variables of a strategy stand on parameter servers."""
    return (kind := kind_of(name)) is not None and kind.variables_on == "servers"


def _plain(name: object) -> str:
    """`multi_worker` of `MultiWorkerMirroredStrategy`, as TensorFlow's classes are called, or of `multi-worker`."""
    words = re.findall(r"[A-Z]*[a-z]+|[A-Z]+", str(name).removesuffix("V2").removesuffix("Strategy"))
    plain = "_".join(words).lower()
    return plain.removesuffix("_mirrored") if plain != "mirrored" else plain


def strategy_case(
    name: str | StrategyCase, hardware: str = "cpu", network: str | None = None, over: Over | OnMachines | None = None
) -> StrategyCase:
    """The case for a strategy name.

    Args:
        name: for example `mirrored-2` or `multi_worker-2x2:ring`.
        hardware: `cpu`, `gpu`, `gpu-simulated`, `tpu` or `tpu-rehearsed`.
        network: what the tasks of a cluster are joined by, as of `simulator.Cluster`; a single process has no network.
        over: the machines of its tasks; by default this one, or where the session has clusters.

    Raises:
        UsageError: the name, the hardware or the network is unknown; the message lists the accepted forms.
    """
    if isinstance(name, StrategyCase):
        return name
    if hardware not in HARDWARE:
        raise UsageError(f"hardware {hardware!r} is unknown; accepted are {', '.join(HARDWARE)}")
    if network not in (None, *NETWORKS):
        raise UsageError(f"network {network!r} is unknown; accepted are {', '.join(NETWORKS)}")
    there = over if isinstance(over, Over) else Over.of(**(over or {}))
    for kind in all_kinds().values():
        if match := re.fullmatch(kind.name + kind.form, str(name)):
            parts = match.groupdict()
            model = int(parts.get("model") or 1)
            clustered = kind.clustered and bool(parts.get("workers"))
            return StrategyCase(
                name=name,
                family=kind,
                workers=int(parts.get("workers") or 1),
                devices=int(parts.get("replicas") or 1) * model,
                model=model,
                ps=int(parts.get("ps") or 0),
                option=parts.get("option"),
                hardware=hardware,
                network=network if clustered else None,
                over=there or (Over.by_default() if clustered else None),
            )
    examples = [each for kind in all_kinds().values() for each in kind.examples]
    alike = sorted(
        (each for each in examples if each.partition("-")[0] == _plain(name)), key=lambda each: "-2" not in each
    )
    near = f"did you mean {alike[0]}? " if alike else meant(name, examples)
    raise UsageError(f"strategy {name!r} is unknown; {near}accepted are {_accepted()}")


def _accepted() -> str:
    kinds = all_kinds().values()
    forms = ", ".join(kind.accepted for kind in kinds)
    options = "; ".join(kind.options for kind in kinds if kind.options)
    return f"{forms}; options: {options}"


def catalogue(hardware: str = "cpu") -> tuple[StrategyCase, ...]:
    """One case of every kind and option."""
    return tuple(strategy_case(name, hardware) for kind in all_kinds().values() for name in kind.examples)
