"""Time from a fresh cluster to its first all-reduce, next to TensorFlow's MultiProcessRunner; what 32 tasks cost."""

from __future__ import annotations

from typing import Any

from benchmarks.measure import Figure, main, median, seconds_of
from benchmarks.mpr import multi_process_runner
from simulator import Cluster, Topology

_ROUNDS = 7
_MANY = 32
_MANY_ROUNDS = 3


def four_workers() -> Figure:
    """Start 4 workers, all-reduce once, and stop, in turns with MultiProcessRunner, both after one warm-up."""
    ours: list[float] = []
    theirs: list[float] = []
    with multi_process_runner(4) as run_peer:
        run_peer()
        _run(4, first_all_reduce)
        for _ in range(_ROUNDS):
            theirs.append(run_peer())
            ours.append(seconds_of(lambda: _run(4, first_all_reduce)))
    return Figure(
        name="4 workers to first all-reduce, fresh",
        figure=median(ours),
        unit="s",
        target=0.6,
        limit_of="ratio",
        peer=median(theirs),
        samples=_ROUNDS,
    )


def many_workers() -> Figure:
    """Start 32 workers, all-reduce once, and stop."""
    _run(2, first_all_reduce)
    seconds = [seconds_of(lambda: _run(_MANY, first_all_reduce)) for _ in range(_MANY_ROUNDS)]
    return Figure(
        name=f"{_MANY} workers to first all-reduce, fresh",
        figure=median(seconds),
        unit="s",
        target=6.0,
        samples=_MANY_ROUNDS,
    )


def many_workers_memory() -> Figure:
    """Measure the proportional set size of each of 32 workers while all are alive; the largest counts."""
    sizes = _run(_MANY, all_reduce_and_size)
    return Figure(name=f"{_MANY} workers, memory of the largest task", figure=max(sizes), unit="MB", target=120.0)


def first_all_reduce() -> float:
    """Join the cluster as one worker and return the sum of one over all workers."""
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    @tf.function
    def step() -> Any:
        return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("SUM", tf.ones([4])))

    return float(strategy.experimental_local_results(step())[0].numpy()[0])


def all_reduce_and_size() -> float:
    """Return this task's proportional set size in MB, between two all-reduces so that every task is alive meanwhile."""
    from pathlib import Path

    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    @tf.function
    def step() -> Any:
        return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("SUM", tf.ones([4])))

    step()
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    kibibytes = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    step()
    return kibibytes * 1024 / 1e6


def _run(workers: int, function: Any) -> list[float]:
    """Run `function` in a fresh cluster and return each worker's value, which for the all-reduce is checked."""
    with Cluster(Topology(worker=workers)) as cluster:
        result = cluster.run(function)
    values = [result[f"worker:{index}"].value for index in range(workers)]
    assert function is not first_all_reduce or values == [float(workers)] * workers, values
    return values


MEASUREMENTS = (four_workers, many_workers, many_workers_memory)

if __name__ == "__main__":
    main(MEASUREMENTS, __doc__ or "")
