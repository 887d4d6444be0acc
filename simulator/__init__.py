"""Clusters of TensorFlow tasks as local processes."""

from simulator.cluster import Cluster
from simulator.errors import DeadlineExceeded, LockstepError, RunFailed, TaskError, UsageError
from simulator.faults.plan import FaultPlan
from simulator.network import HostsUnavailable, Link, LinkCounters, LinkRefused, Network, NetworkEnded, RelayEnded
from simulator.results import RunResult, TaskResult
from simulator.run import Run
from simulator.steps import step
from simulator.task import Task
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
