"""Clusters of TensorFlow tasks as local processes."""

from simulator.cluster import Cluster
from simulator.errors import DeadlineExceeded, LockstepError, RunFailed, TaskError, UsageError
from simulator.results import RunResult, TaskResult
from simulator.run import Run
from simulator.task import Task
from simulator.topology import Devices, Topology

__all__ = [
    "Cluster",
    "DeadlineExceeded",
    "Devices",
    "LockstepError",
    "Run",
    "RunFailed",
    "RunResult",
    "Task",
    "TaskError",
    "TaskResult",
    "Topology",
    "UsageError",
]
