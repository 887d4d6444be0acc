"""Faults of tasks, links and files, addressed to a training step, drawn from a seed, undone and measured.

Each kind is here by the name of its class as well: `from simulator.faults import Kill, Partition`.
"""

from typing import Any

from simulator.faults.history import canonical_history
from simulator.faults.injector.injector import Injector
from simulator.faults.kinds import all_kinds
from simulator.faults.plan.plan import FaultPlan, describe_fault, describe_plan, goes_without_saying
from simulator.faults.protocol import Effect, Fault, LinkFault, NoEffect, Scene, TaskFault

__all__ = [
    "Effect",
    "Fault",
    "FaultPlan",
    "Injector",
    "LinkFault",
    "NoEffect",
    "Scene",
    "TaskFault",
    "all_kinds",
    "canonical_history",
    "describe_fault",
    "describe_plan",
    "goes_without_saying",
]


def __getattr__(name: str) -> Any:
    """The class of a kind: a new kind is a new file, which nothing else has to name."""
    for kind in all_kinds().values():
        if kind.__name__ == name:
            return kind
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *(kind.__name__ for kind in all_kinds().values())])
