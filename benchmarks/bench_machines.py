"""What it costs to have tasks on machines behind a command, next to having them here; both machines are this one."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from benchmarks.bench_cluster import first_all_reduce
from benchmarks.measure import Figure, main, median, seconds_of
from simulator import Cluster, Topology
from simulator.journal import read_journal

__all__ = ["MEASUREMENTS"]

_TWO = "env MACHINE={}:m0,m1"
_WORKERS = 4
_ROUNDS = 7
_STEPS = 200
_STEP_SECONDS = 0.005


def all_reduce_over_machines() -> Figure:
    """Start 4 workers, all-reduce once, and stop: two on each of two machines and all here, in turns, both warm."""
    found: dict[str | None, list[float]] = {None: [], _TWO: []}
    with contextlib.ExitStack() as stack:
        clusters = {
            machines: stack.enter_context(Cluster(Topology(worker=_WORKERS), machines=machines)) for machines in found
        }
        for number in range(_ROUNDS + 1):
            for machines, cluster in clusters.items():
                seconds = seconds_of(lambda cluster=cluster: _all_reduce(cluster))  # type: ignore[misc]
                found[machines] += [seconds] * (number > 0)
    return Figure(
        name="4 workers to first all-reduce, two machines",
        figure=median(found[_TWO]),
        unit="s",
        target=1.15,
        limit_of="ratio",
        peer=median(found[None]),
        samples=_ROUNDS,
    )


def step_is_heard() -> Figure:
    """How long after it was announced a step of a task on a machine is written down, in milliseconds."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory, "out")
        with Cluster(Topology(worker=2), preload=(), machines=_TWO, out=out) as cluster:
            cluster.run(_steps)
        events = [event for event in read_journal(out / "0" / "journal.jsonl") if event["event"] == "step"]
    late = [(event["t"] - event["at"]) * 1e3 for event in events]
    return Figure(
        name="a step on a machine is heard after", figure=median(late), unit="ms", target=0.5, samples=len(late)
    )


def _all_reduce(cluster: Cluster) -> None:
    values = [task.value for task in cluster.run(first_all_reduce).values()]
    assert values == [float(_WORKERS)] * _WORKERS, values


def _steps() -> None:
    import threading

    from simulator import step

    for _ in range(_STEPS):
        step()
        threading.Event().wait(_STEP_SECONDS)


MEASUREMENTS = (all_reduce_over_machines, step_is_heard)

if __name__ == "__main__":
    main(MEASUREMENTS, __doc__ or "")
