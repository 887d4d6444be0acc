"""Large clusters: 128 workers start, reduce, lose one and come back; 64 are cut in half; many steps cost no memory."""

from __future__ import annotations

import os
from typing import Any

import psutil
import pytest

from simulator import Cluster, FaultPlan, Topology
from simulator.faults import Kill, Partition

pytestmark = pytest.mark.full
STEPS = 3
GROWTH_MAX = 4 << 20
"""Bytes: of 1,800 steps, which would each leave 2 kB."""


def _reduce(steps: int) -> float:
    """The sum of ones over all workers, so many times; the last one."""
    import tensorflow as tf

    import simulator

    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    @tf.function
    def step() -> Any:
        return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("SUM", tf.ones([4])))

    total = 0.0
    for _ in range(steps):
        total = float(strategy.experimental_local_results(step())[0][0])
        simulator.step()
    return total


def test_a_job_of_128_workers_loses_one_and_comes_back() -> None:
    """All start again once after that, and reduce over all.

    Where cores are short, TensorFlow may give up the first start by itself, before any step.
    """
    plan = FaultPlan(faults=(Kill("worker:77", step=1),))
    with Cluster(Topology(worker=128), faults=plan, restarts=2, timeout=400) as cluster:
        result = cluster.run(_reduce, STEPS)
    assert {task.value for task in result.values()} == {128.0}
    assert len({task.incarnation for task in result.values()}) == 1
    *given_up, killed, _ = result["worker:77"].incarnations
    assert killed.signal == "SIGKILL"
    assert not any(each.steps for each in given_up)
    assert [fault.fired for fault in result.faults] == [True]


def test_64_workers_are_cut_in_half_and_go_on() -> None:
    """Nothing passes between the halves for two seconds, and then all that was held arrives in order."""
    cut = Partition(mode="hold", src="worker:0-31", dst="worker:32-63", step=1, of="worker:0", duration="2s")
    with Cluster(Topology(worker=64), faults=FaultPlan(faults=(cut,)), timeout=400) as cluster:
        result = cluster.run(_reduce, STEPS)
    assert {task.value for task in result.values()} == {64.0}
    # It is proved by what came by while it was in force.
    assert [fault.fired for fault in result.faults] == [True]


def test_the_parent_does_not_grow_with_the_steps() -> None:
    """Of a run that is followed step by step."""

    def trains(steps: int) -> int:
        import simulator

        for _ in range(steps):
            simulator.step()
        return steps

    process = psutil.Process(os.getpid())
    sizes = []
    with Cluster(Topology(worker=2), preload=(), timeout=120) as cluster:
        for steps in (200, 200, 2000):
            cluster.run(trains, steps)
            sizes.append(process.memory_info().rss)
    assert sizes[2] - sizes[1] < GROWTH_MAX
