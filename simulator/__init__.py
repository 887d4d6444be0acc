"""Clusters of TensorFlow tasks as local processes."""

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
