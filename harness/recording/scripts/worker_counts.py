"""How many workers a script counts that reads the cluster: in its own reference, a number that knows where it is used.

It asks the resolver for the cluster, or reads `TF_CONFIG` as JSON.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from harness.evidence.stand_ins import WORKERS
from harness.recording.patches import patched
from harness.recording.scripts.counts import ReplicaCount
from harness.recording.scripts.device_counts import CountedList
from harness.recording.scripts.stand_ins import StandIns

_WORKER = "worker"


@contextlib.contextmanager
def counted_workers(stand_ins: StandIns, config: str) -> Iterator[None]:
    """Within this context a script that counts the workers of the cluster gets a `ReplicaCount`.

    Args:
        stand_ins: hears of its uses.
        config: what `TF_CONFIG` is.
    """
    from tensorflow.python.training.server_lib import ClusterSpec

    count = ReplicaCount(stand_ins.script.workers, stand_ins, WORKERS)

    def listed(found: list[str]) -> list[str]:
        return CountedList(found, lambda _: count)

    def of_cluster(jobs: dict[str, list[str]]) -> dict[str, list[str]]:
        return {**jobs, _WORKER: listed(jobs[_WORKER])} if _WORKER in jobs else jobs

    def loads_around(original: Callable[..., Any]) -> Callable[..., Any]:
        def loads(text: Any, *args: Any, **options: Any) -> Any:
            found = original(text, *args, **options)
            return {**found, "cluster": of_cluster(found["cluster"])} if text == config else found

        return loads

    def dict_around(original: Callable[..., Any]) -> Callable[..., Any]:
        def as_dict(spec: Any) -> Any:
            found = original(spec)
            return of_cluster(found) if stand_ins.asked_by_script() else found

        return as_dict

    def number_around(original: Callable[..., Any]) -> Callable[..., Any]:
        def num_tasks(spec: Any, job_name: str) -> Any:
            found = original(spec, job_name)
            return count if job_name == _WORKER and stand_ins.asked_by_script() else found

        return num_tasks

    def tasks_around(original: Callable[..., Any]) -> Callable[..., Any]:
        def job_tasks(spec: Any, job_name: str) -> Any:
            found = original(spec, job_name)
            return listed(found) if job_name == _WORKER and stand_ins.asked_by_script() else found

        return job_tasks

    with (
        patched(json, "loads", loads_around),
        patched(ClusterSpec, "as_dict", dict_around),
        patched(ClusterSpec, "num_tasks", number_around),
        patched(ClusterSpec, "job_tasks", tasks_around),
    ):
        yield
