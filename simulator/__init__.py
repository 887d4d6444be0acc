"""Clusters of TensorFlow tasks as local processes.

The names are looked up when they are first asked for: a task needs next to nothing of what the parent does, and each
process of an unmodified program would otherwise load all of it for `simulator.step`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.agent.steps import step
    from simulator.cluster import Cluster
    from simulator.errors import DeadlineExceeded, LockstepError, TaskError, UsageError
    from simulator.faults.plan.plan import FaultPlan
    from simulator.network import HostsUnavailable, Link, LinkCounters, LinkRefused, Network, NetworkEnded, RelayEnded
    from simulator.results import RunFailed, RunResult, TaskResult
    from simulator.run.run import Run
    from simulator.run.task import Task
    from simulator.topology import Devices, Topology

__all__ = [
    "Cluster",
    "DeadlineExceeded",
    "Devices",
    "FaultPlan",
    "HostsUnavailable",
    "Link",
    "LinkCounters",
    "LinkRefused",
    "LockstepError",
    "Network",
    "NetworkEnded",
    "RelayEnded",
    "Run",
    "RunFailed",
    "RunResult",
    "Task",
    "TaskError",
    "TaskResult",
    "Topology",
    "UsageError",
    "step",
]

_PLACES = {
    ".agent.steps": ("step",),
    ".cluster": ("Cluster",),
    ".errors": ("DeadlineExceeded", "LockstepError", "TaskError", "UsageError"),
    ".faults.plan.plan": ("FaultPlan",),
    ".network": ("HostsUnavailable", "Link", "LinkCounters", "LinkRefused", "Network", "NetworkEnded", "RelayEnded"),
    ".results": ("RunFailed", "RunResult", "TaskResult"),
    ".run.run": ("Run",),
    ".run.task": ("Task",),
    ".topology": ("Devices", "Topology"),
}


def __getattr__(name: str) -> Any:
    for place, names in _PLACES.items():
        if name in names:
            # Relative, because a process may have this package under another name; see `_lockstep.private`.
            found = globals()[name] = getattr(importlib.import_module(place, __name__), name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
