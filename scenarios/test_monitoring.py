"""What watches a training: TensorBoard's event files, profiles, the log of placements, and the memory of devices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simulator import Cluster, Topology

_EPOCHS = 3


def _fit_with_tensorboard(folder: str) -> int:
    """`fit` of Keras 2 as the multi-worker tutorial writes it; returns the process id, which names event files."""
    import os

    import numpy as np
    import tensorflow as tf
    import tf_keras

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = tf_keras.Sequential([tf_keras.layers.Dense(1, input_shape=(2,))])
        model.compile("sgd", "mse")
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    data = tf.data.Dataset.from_tensor_slices((np.ones((16, 2)), np.ones((16, 1)))).batch(8).with_options(options)
    watching = tf_keras.callbacks.TensorBoard(folder, update_freq="epoch", profile_batch=0)
    model.fit(data, epochs=_EPOCHS, verbose=0, callbacks=[watching])
    return os.getpid()


def _write_everywhere(folder: str) -> int:
    """The same place for every worker, without asking who is the chief."""
    import os

    import tensorflow as tf

    tf.distribute.MultiWorkerMirroredStrategy()
    with tf.summary.create_file_writer(folder).as_default():
        tf.summary.scalar("epoch_loss", 1.0, step=0)
    return os.getpid()


def _read(folder: str) -> dict[str, Any]:
    """Every event file by the id of the process that has written it; reading checks the checksum of each record."""
    import pathlib

    import tensorflow as tf

    found: dict[str, Any] = {}
    for path in sorted(pathlib.Path(folder).rglob("events.out.tfevents.*")):
        values: list[tuple[str, int]] = []
        for record in tf.data.TFRecordDataset(str(path)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            values += [(value.tag, event.step) for value in event.summary.value]
        # events.out.tfevents.TIME.HOST.PID.NUMBER.v2
        found.setdefault(path.name.split(".")[-3], []).extend(values)
    return found


def _events(cluster: Cluster, write: Callable[[str], int], folder: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """The process id of each worker, and what the event files hold by process id."""
    result = cluster.run(write, str(folder))
    with Cluster(Topology(), timeout=60) as reader:
        found = reader.run(_read, str(folder))["local:0"].value
    return {task: str(outcome.value) for task, outcome in result.items()}, found


@pytest.mark.cluster(worker=2, timeout=90)
def test_the_chief_alone_writes_event_files(cluster: Cluster, tmp_path: Path) -> None:
    """TensorBoard's callback leaves the loss of every epoch, whole and readable, from one process: the chief's."""
    workers, found = _events(cluster, _fit_with_tensorboard, tmp_path / "logs")
    assert list(found) == [workers["worker:0"]]
    losses = [step for tag, step in found[workers["worker:0"]] if tag == "epoch_loss"]
    assert losses == list(range(_EPOCHS))


@pytest.mark.cluster(worker=2, timeout=90)
def test_workers_that_all_write_are_seen(cluster: Cluster, tmp_path: Path) -> None:
    """Without a question for the chief each worker leaves a file, which TensorBoard would draw one over the other."""
    workers, found = _events(cluster, _write_everywhere, tmp_path / "logs")
    assert sorted(found) == sorted(workers.values())


@pytest.mark.cluster(worker=2, timeout=90)
def test_each_worker_leaves_a_profile(cluster: Cluster, tmp_path: Path) -> None:
    """The profiler names files by host, so workers of one machine need a folder each; every one shows its own steps."""

    def profiled(folder: str) -> list[str]:
        import os
        import pathlib

        import tensorflow as tf

        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        with strategy.scope():
            w = tf.Variable(1.0)

        @tf.function
        def train_step() -> Any:
            return strategy.run(lambda: w.assign_sub(0.1 * w))

        own = pathlib.Path(folder, os.environ["LOCKSTEP_TASK"].replace(":", "-"))
        tf.profiler.experimental.start(str(own))
        for number in range(3):
            with tf.profiler.experimental.Trace("own_step", step_num=number, _r=1):
                train_step()
        tf.profiler.experimental.stop()
        return [path.name for path in own.rglob("*.xplane.pb") if b"own_step" in path.read_bytes()]

    result = cluster.run(profiled, str(tmp_path))
    assert all(len(task.value) == 1 for task in result.values())
    assert len(list(tmp_path.rglob("*.xplane.pb"))) == 2


@pytest.fixture
def on_simulated_gpu(simulated_gpu: None) -> Topology:
    """One process with two simulated GPUs."""
    return Topology(devices="gpu-simulated:2")


def test_the_log_of_placements_names_the_device(on_simulated_gpu: Topology) -> None:
    """TensorFlow writes for each op where it runs: on the GPU, or on the CPU what is pinned there."""

    def multiply() -> None:
        import tensorflow as tf

        tf.debugging.set_log_device_placement(True)
        for name in ("/GPU:1", "/CPU:0"):
            with tf.device(name):
                tf.matmul(tf.ones((2, 2)), tf.ones((2, 2)))

    with Cluster(on_simulated_gpu, timeout=60) as cluster:
        log = cluster.run(multiply)["local:0"].log
    # With oneDNN's kernels, which some CPUs get, it is called _MklMatMul.
    lines = [line for line in log.splitlines() if "MatMul in device" in line]
    assert [line.rpartition("device:")[2].strip() for line in lines] == ["GPU:1", "CPU:0"]


def test_memory_grows_with_what_is_kept(on_simulated_gpu: Topology) -> None:
    """With growth a device has what is in use, of which the peak stays known; nothing is taken in advance."""

    def allocate() -> list[dict[str, int]]:
        import tensorflow as tf

        found = [tf.config.experimental.get_memory_info("GPU:1")]
        with tf.device("/GPU:1"):
            kept = tf.zeros(2**20)
        found.append(tf.config.experimental.get_memory_info("GPU:1"))
        del kept
        return [*found, tf.config.experimental.get_memory_info("GPU:1")]

    with Cluster(on_simulated_gpu, timeout=60) as cluster:
        before, during, after = cluster.run(allocate)["local:0"].value
    assert during["current"] - before["current"] >= 4 * 2**20
    # What is left are the constants of the call, which TensorFlow keeps.
    assert after["current"] - before["current"] < 2**12
    assert (before["peak"] < 2**20, after["peak"]) == (True, during["peak"])
