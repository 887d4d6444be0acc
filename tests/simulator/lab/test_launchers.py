"""Machines behind a real ssh and a real Slurm, all of them this one: the numbers of a run, and what becomes of it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from simulator import Cluster, FaultPlan, Topology
from simulator.faults import MachineLost
from tests.simulator._wire import eventually
from tests.simulator.lab.launchers import slurm, ssh

pytestmark = pytest.mark.full


@pytest.fixture(scope="module", params=[ssh, slurm], ids=["ssh", "slurm"])
def machines(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What leads to three machines."""
    with request.param(tmp_path_factory.mktemp(request.param.__name__)) as command:
        yield command


def _losses() -> list[float]:
    """Three steps in which each worker has a part of the sum."""
    import json

    import tensorflow as tf

    from simulator import step

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        weight = tf.Variable(1.0, aggregation=tf.VariableAggregation.SUM)
    share = float(json.loads(os.environ["TF_CONFIG"])["task"]["index"] + 1)

    @tf.function
    def train() -> tf.Tensor:
        def one() -> tf.Tensor:
            weight.assign_sub(0.125 * share * weight)
            return share * weight

        return strategy.reduce("SUM", strategy.run(one), axis=None)

    losses = []
    for _ in range(3):
        losses.append(float(train()))
        step()
    return losses


def test_a_training_has_the_numbers_of_a_local_one(machines: str) -> None:
    """Of two workers, on a machine each."""
    with Cluster(Topology(worker=2), timeout=120) as cluster:
        local = {task: result.value for task, result in cluster.run(_losses).tasks.items()}
    place = {"worker:0": "m0", "worker:1": "m1"}
    with Cluster(Topology(worker=2), machines=machines, place=place, timeout=120) as cluster:
        result = cluster.run(_losses)
        assert {task: each.machine for task, each in result.tasks.items()} == place
    assert {task: each.value for task, each in result.tasks.items()} == local
    assert local["worker:0"] == local["worker:1"]


def test_a_lost_machine_is_replaced_by_a_spare(machines: str) -> None:
    """After the fence, by one restart of the whole job, which then ends as one that lost nobody."""
    plan = FaultPlan(faults=(MachineLost("worker:1", step=2),))
    place = {"worker:0": "m0", "worker:1": "m1"}
    with Cluster(Topology(worker=2), machines=machines, place=place, restarts=1, faults=plan, timeout=180) as cluster:
        result = cluster.run(_losses)
        assert len({tuple(each.value) for each in result.tasks.values()}) == 1
    assert {task: each.machine for task, each in result.tasks.items()} == {"worker:0": "m0", "worker:1": "m2"}
    assert [(fault.where, fault.fired) for fault in result.faults] == [("worker:1", True)]


def _waits(directory: str) -> None:
    """Say who it is, and wait."""
    import signal

    Path(directory, str(os.getpid())).touch()
    while True:
        signal.pause()


def test_a_driver_that_is_killed_leaves_no_task(machines: str, tmp_path: Path) -> None:
    """Within three seconds, by the end of its streams; and no site."""
    script = textwrap.dedent(f"""
        from simulator import Cluster, Topology
        from tests.simulator.lab.test_launchers import _waits
        with Cluster(Topology(worker=2), preload=(), machines={machines!r}) as cluster:
            cluster.run(_waits, {str(tmp_path)!r})
    """)
    with subprocess.Popen([sys.executable, "-c", script]) as driver:
        try:
            eventually(lambda: len(list(tmp_path.iterdir())) == 2, "the tasks")
            tasks = [psutil.Process(int(path.name)) for path in tmp_path.iterdir()]
            sites = {task.parent() for task in tasks}
        finally:
            driver.kill()
            killed = time.monotonic()
    eventually(lambda: not any(each.is_running() for each in (*tasks, *sites) if each is not None), "their end")
    assert time.monotonic() - killed < 3
