"""Clusters have the roles that TensorFlow expects, and any number of them run side by side."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from simulator import Cluster, Topology


def _all_reduce() -> tuple[int, Any]:
    """Sum of ones over all replicas, as each worker sees it."""
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    @tf.function
    def step() -> Any:
        return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("SUM", tf.ones([4])))

    return strategy.num_replicas_in_sync, strategy.experimental_local_results(step())[0]


def _role() -> dict[str, Any]:
    """What TensorFlow's own resolver makes of TF_CONFIG."""
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    spec: tf.train.ClusterSpec = resolver.cluster_spec()
    return {
        "type": resolver.task_type,
        "id": resolver.task_id,
        "jobs": {job: spec.num_tasks(job) for job in sorted(spec.jobs)},
    }


@pytest.mark.cluster(chief=1, worker=2, evaluator=1)
def test_every_task_knows_its_role(cluster: Cluster) -> None:
    """Chief, workers and evaluator see one cluster of chief and workers, and themselves in it."""
    result = cluster.run(_role)
    jobs = {"chief": 1, "worker": 2}
    assert {name: task.value for name, task in result.items()} == {
        "chief:0": {"type": "chief", "id": 0, "jobs": jobs},
        "worker:0": {"type": "worker", "id": 0, "jobs": jobs},
        "worker:1": {"type": "worker", "id": 1, "jobs": jobs},
        "evaluator:0": {"type": "evaluator", "id": 0, "jobs": jobs},
    }


@pytest.mark.cluster(chief=1, worker=2, ps=1)
def test_workers_and_ps_serve_and_the_chief_is_the_only_client(cluster: Cluster) -> None:
    """Workers and ps run tf.distribute.Server, hold variables and run ops, and end when the chief is done."""

    def place() -> dict[str, Any]:
        import tensorflow as tf

        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        strategy = tf.distribute.ParameterServerStrategy(resolver)
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        with strategy.scope():
            variable = tf.Variable(0.0)

        @tf.function
        def step() -> Any:
            variable.assign_add(1.0)
            return tf.constant(0.0)

        for _ in range(10):
            coordinator.schedule(step)
        coordinator.join()
        return {"total": variable.numpy(), "device": variable.device}

    result = cluster.run(place)
    assert result["chief:0"].value["total"] == 10
    assert "/job:ps/" in result["chief:0"].value["device"]
    assert [result[task].exit for task in ("worker:0", "worker:1", "ps:0")] == [0, 0, 0]
    assert result["worker:0"].value is None


@pytest.mark.cluster(chief=1, worker=1, evaluator=1)
def test_an_evaluator_runs_beside_the_training(cluster: Cluster, tmp_path: Path) -> None:
    """The evaluator loads each checkpoint that the chief saves and sees the training's final value."""

    def train_or_evaluate(directory: str, steps: int) -> list[int]:
        import tensorflow as tf

        if tf.distribute.cluster_resolver.TFConfigClusterResolver().task_type == "evaluator":
            counter = tf.Variable(0)
            seen = []
            for path in tf.train.checkpoints_iterator(directory, timeout=60):
                tf.train.Checkpoint(counter=counter).restore(path).assert_consumed()
                seen.append(int(counter.numpy()))
                if seen[-1] == steps:
                    break
            return seen
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        with strategy.scope():
            counter = tf.Variable(0, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
        checkpoint = tf.train.Checkpoint(counter=counter)
        is_chief = strategy.cluster_resolver.task_type == "chief"
        # Every worker takes part in a save; the evaluator follows the chief's.
        folder = directory if is_chief else f"{directory}-worker"
        manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=None)
        for step in range(1, steps + 1):
            strategy.run(lambda: counter.assign_add(1))
            manager.save(checkpoint_number=step)
        return [int(counter.numpy())]

    result = cluster.run(train_or_evaluate, str(tmp_path / "checkpoints"), 3)
    assert result["chief:0"].value == result["worker:0"].value == [3]
    assert result["evaluator:0"].value[-1] == 3
    assert result["evaluator:0"].value == sorted(result["evaluator:0"].value)


@pytest.mark.cluster(worker=8)
def test_eight_workers_reduce(cluster: Cluster) -> None:
    """An all-reduce over eight processes counts each of them once."""
    result = cluster.run(_all_reduce)
    assert [(replicas, sums.tolist()) for replicas, sums in (task.value for task in result.values())] == [
        (8, [8.0] * 4)
    ] * 8


@pytest.mark.cluster(worker=2, devices="cpu:2")
def test_each_worker_computes_on_all_its_devices(cluster: Cluster) -> None:
    """Two workers with two logical devices each are four replicas."""
    result = cluster.run(_all_reduce)
    assert {task.value[0] for task in result.values()} == {4}
    assert result["worker:1"].value[1].tolist() == [4.0] * 4


@pytest.mark.parametrize("count", [4, pytest.param(10, marks=pytest.mark.full)])
def test_many_clusters_at_once(count: int) -> None:
    """Clusters of two workers, started together, find their own peers and only those."""

    def one(number: int) -> list[Any]:
        with Cluster(Topology(worker=2)) as cluster:
            return [task.value[1].tolist() for task in cluster.run(_all_reduce).values()]

    with ThreadPoolExecutor(max_workers=count) as pool:
        assert list(pool.map(one, range(count))) == [[[2.0] * 4] * 2] * count


@pytest.mark.full
def test_ten_clusters_at_once_from_ten_processes() -> None:
    """The same from ten processes, which know nothing of each other."""
    script = (
        "from scenarios.test_cluster import _all_reduce; from simulator import Cluster, Topology\n"
        "with Cluster(Topology(worker=2)) as cluster:\n"
        "    assert [task.value[0] for task in cluster.run(_all_reduce).values()] == [2, 2]\n"
    )
    processes = [subprocess.Popen([sys.executable, "-c", script], cwd=Path(__file__).parent.parent) for _ in range(10)]
    assert [process.wait(timeout=120) for process in processes] == [0] * 10


@pytest.mark.cluster(devices="cpu:1")
def test_a_strategy_can_be_picked_by_the_number_of_gpus(cluster: Cluster) -> None:
    """The usual choice (several GPUs, one, none) ends on a CPU at the default strategy with one replica."""

    def pick() -> tuple[str, int]:
        import tensorflow as tf

        gpus = tf.config.list_logical_devices("GPU")
        if len(gpus) > 1:
            strategy = tf.distribute.MirroredStrategy()
        elif gpus:
            strategy = tf.distribute.OneDeviceStrategy("/gpu:0")
        else:
            strategy = tf.distribute.get_strategy()
        return type(strategy).__name__, strategy.num_replicas_in_sync

    assert cluster.run(pick)["local:0"].value == ("_DefaultDistributionStrategy", 1)


@pytest.mark.cluster(worker=2)
@pytest.mark.parametrize(
    "options",
    [
        {"implementation": "RING"},
        {"implementation": "AUTO", "bytes_per_pack": 64},
        {"implementation": "RING", "timeout_seconds": 30.0},
    ],
    ids=["ring", "bytes_per_pack", "timeout_seconds"],
)
def test_communication_options_change_no_number(cluster: Cluster, options: dict[str, Any]) -> None:
    """However the all-reduce is carried out, packed or with a time limit, integers sum exactly."""

    def reduce(options: dict[str, Any]) -> list[Any]:
        import tensorflow as tf

        experimental = tf.distribute.experimental
        implementation = experimental.CommunicationImplementation[options.pop("implementation")]
        hints = experimental.CommunicationOptions(implementation=implementation, **options)
        strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=hints)
        rank = strategy.cluster_resolver.task_id

        def replica_step() -> Any:
            tensors = [tf.range(size, dtype=tf.float32) * (rank + 1) for size in (3, 100, 1000)]
            return tf.distribute.get_replica_context().all_reduce("SUM", tensors, hints)

        @tf.function
        def step() -> Any:
            return strategy.run(replica_step)

        return [float(tf.reduce_sum(tensor)) for tensor in step()]

    result = cluster.run(reduce, options)
    assert {task.value == [9.0, 14850.0, 1498500.0] for task in result.values()} == {True}


@pytest.mark.cluster(devices="cpu:4")
@pytest.mark.parametrize("devices", [["CPU:0", "CPU:1", "CPU:2", "CPU:3"], ["CPU:1", "CPU:3"]], ids=["all", "chosen"])
def test_mirrored_strategy_uses_the_devices_it_is_given(cluster: Cluster, devices: list[str]) -> None:
    """Replicas run on just these devices, and the sum over them counts each once."""

    def place(devices: list[str]) -> tuple[list[str], float]:
        import tensorflow as tf

        strategy = tf.distribute.MirroredStrategy(devices)
        ones = strategy.run(lambda: tf.identity(1.0))
        used = [tensor.device.rpartition("device:")[2] for tensor in strategy.experimental_local_results(ones)]
        return used, float(strategy.reduce("SUM", ones, axis=None))

    assert cluster.run(place, devices)["local:0"].value == (devices, float(len(devices)))
