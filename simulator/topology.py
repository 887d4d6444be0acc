"""The shape of a cluster: how many tasks each job has, their devices, and the `TF_CONFIG` each task sees."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from simulator.errors import UsageError

# In the order in which tasks are listed and started.
JOBS = ("chief", "worker", "ps", "evaluator")
_MOST_TASKS = 128
_DEVICES = re.compile(r"(cpu|gpu|gpu-simulated):([1-9][0-9]?)")
_RANGE = re.compile(r"(\d+)-(\d+)")


def matching(pattern: str, tasks: Iterable[str]) -> tuple[str, ...]:
    """The tasks, in their order, that a pattern means.

    Args:
        pattern: `worker:1`, `worker` or `worker:*` for all of a job, `worker:0-31` for those of both numbers and
            between them, `*` for all, or whatever `fnmatch` understands.
        tasks: by their names.
    """
    job, _, number = pattern.partition(":")
    if (ends := _RANGE.fullmatch(number)) is not None:
        named = [(task, task.partition(":")) for task in tasks]
        return tuple(task for task, (of, _, at) in named if of == job and int(ends[1]) <= int(at) <= int(ends[2]))
    pattern = pattern if ":" in pattern or pattern == "*" else f"{pattern}:*"
    return tuple(task for task in tasks if fnmatch.fnmatchcase(task, pattern))


def check_range(pattern: str, found: Sequence[str], what: str) -> None:
    """Fail if a pattern names tasks by numbers of which not all exist.

    Args:
        pattern: as of `matching`.
        found: what that has made of it; at least one.
        what: the key that has it.

    Raises:
        UsageError: it does; the message says which one is the last.
    """
    job, _, number = pattern.partition(":")
    last = found[-1].partition(":")[2]
    if (ends := _RANGE.fullmatch(number)) is not None and int(ends[2]) > int(last):
        raise UsageError(
            f"{what}={pattern} reaches beyond {found[-1]}, which is the last {job} task; write {job}:{ends[1]}-{last}, "
            f"or {job}:* for all"
        )


@dataclass(frozen=True)
class Devices:
    """Logical devices of one task: `cpu:2` is one process with two logical CPU devices.

    A GPU is one that TensorFlow sees; a simulated one, `gpu-simulated:2`, is never taken for it.
    """

    kind: str
    count: int

    @classmethod
    def parse(cls, text: object) -> Devices:
        """Parse `cpu:N`, `gpu:N` or `gpu-simulated:N`, N from 1 to 99.

        Raises:
            UsageError: anything else.
        """
        match = _DEVICES.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise UsageError(
                f"devices {text!r} is not understood; write cpu:N or gpu:N with N from 1 to 99, for example cpu:2, or "
                "gpu-simulated:N for GPUs that are none"
            )
        return cls(kind=match[1], count=int(match[2]))

    @property
    def on_gpu(self) -> bool:
        """Whether TensorFlow takes them for GPUs."""
        return self.kind != "cpu"

    def __str__(self) -> str:
        return f"{self.kind}:{self.count}"


@dataclass(frozen=True)
class Topology:
    """Task counts per job, and the devices of each task.

    `Topology()` without any task is one local process that sees no `TF_CONFIG`; its task is called `local:0`.

    Args:
        worker: number of worker tasks, 0 or more.
        ps: number of parameter-server tasks, 0 or more. With `ps`, workers and ps run `tf.distribute.Server` and the
            chief is the only client; this is how `tf.distribute.ParameterServerStrategy` is deployed.
        chief: 0 or 1.
        evaluator: 0 or 1. As TensorFlow prescribes, the evaluator is not part of the cluster specification.
        devices: `cpu:N`, `gpu:N` or `gpu-simulated:N` for every task, or a mapping from job to that; a job left out has
            `cpu:1`.

    Raises:
        UsageError: a count or a device that makes no sense; the message names the accepted form.
    """

    worker: int = 0
    ps: int = 0
    chief: int = 0
    evaluator: int = 0
    devices: str | Mapping[str, str] = "cpu:1"

    def __post_init__(self) -> None:
        for job in JOBS:
            count = getattr(self, job)
            most = 1 if job in ("chief", "evaluator") else _MOST_TASKS
            if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= most:
                raise UsageError(f"{job}={count!r} is not a task count; give a whole number from 0 to {most}")
        if self.ps and not self.worker:
            raise UsageError("ps tasks need at least one worker; for example Topology(chief=1, worker=2, ps=1)")
        if self.evaluator and not (self.worker or self.chief):
            raise UsageError("an evaluator runs beside training; add worker=N or chief=1")
        if isinstance(self.devices, Mapping):
            for job in self.devices:
                if job not in JOBS:
                    raise UsageError(f"devices for {job!r}: there is no such job; jobs are {', '.join(JOBS)}")
        kinds = {self.devices_of(job).kind for job in JOBS} - {"cpu"}
        if len(kinds) > 1:
            raise UsageError(f"one cluster has one kind of GPU, not {' and '.join(sorted(kinds))}")

    def devices_of(self, job: str) -> Devices:
        """Devices of each task of `job`. A ps task computes nothing, so a single string does not apply to it."""
        if isinstance(self.devices, Mapping):
            return Devices.parse(self.devices.get(job, "cpu:1"))
        devices = Devices.parse(self.devices)
        return Devices("cpu", 1) if job == "ps" else devices

    @property
    def gpu_kind(self) -> str | None:
        """`gpu` or `gpu-simulated` where any task computes on such, else `None`."""
        jobs = {task.partition(":")[0] for task in self.tasks}
        return next((found.kind for job in sorted(jobs) if (found := self.devices_of(job)).on_gpu), None)

    @property
    def is_local(self) -> bool:
        """Whether this is one process without `TF_CONFIG`."""
        return not any(getattr(self, job) for job in JOBS)

    @property
    def tasks(self) -> tuple[str, ...]:
        """All tasks as `job:index`, in starting order: the leader (chief, or worker 0) first."""
        if self.is_local:
            return ("local:0",)
        return tuple(f"{job}:{index}" for job in JOBS for index in range(getattr(self, job)))

    @property
    def server_jobs(self) -> tuple[str, ...]:
        """Jobs whose tasks run a `tf.distribute.Server` and never the user's function."""
        return ("worker", "ps") if self.ps else ()

    @property
    def clients(self) -> tuple[str, ...]:
        """Tasks that run the user's function."""
        return tuple(task for task in self.tasks if task.partition(":")[0] not in self.server_jobs)

    @property
    def networked(self) -> tuple[str, ...]:
        """Tasks that have an address in the cluster specification."""
        return tuple(task for task in self.tasks if task.partition(":")[0] not in ("evaluator", "local"))

    def cluster_spec(self, addresses: Mapping[str, str]) -> dict[str, list[str]]:
        """The cluster specification: job to a list of `host:port`, in the order of the tasks."""
        spec: dict[str, list[str]] = {}
        for task in self.networked:
            spec.setdefault(task.partition(":")[0], []).append(addresses[task])
        return spec

    def tf_config(self, task: str, addresses: Mapping[str, str]) -> str | None:
        """The `TF_CONFIG` value of one task, or `None` for a local topology.

        Args:
            task: the task.
            addresses: `host:port` of each task that has an address.
        """
        if self.is_local:
            return None
        job, _, index = task.partition(":")
        return json.dumps({"cluster": self.cluster_spec(addresses), "task": {"type": job, "index": int(index)}})

    def check_task(self, task: str) -> str:
        """Return `task` if it exists.

        Raises:
            UsageError: no such task; the message lists those there are.
        """
        if task not in self.tasks:
            raise UsageError(f"there is no task {task!r}; tasks are {_listing(self.tasks)}")
        return task

    def __str__(self) -> str:
        if self.is_local:
            return "one local process"
        return ", ".join(f"{getattr(self, job)} {job}" for job in JOBS if getattr(self, job))


def _listing(names: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown}, … ({len(names)} in all)"
