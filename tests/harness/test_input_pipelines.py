"""Iterators whose end neither waits for the thread that tunes them nor kills the process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from harness import verify
from simulator import Cluster, Topology


def _tuned(iterator: Any) -> bool:
    return iterator._dataset.options().autotune.enabled is not False


def _elements() -> list[tuple[bool, list[int]]]:
    """Of one dataset, with the thread and without."""
    import tensorflow as tf

    from harness.recording.input_pipelines import without_autotune

    found = []
    for around in (contextlib.nullcontext, without_autotune):
        tf.random.set_seed(3)
        data = tf.data.Dataset.range(8).map(lambda x: 2 * x, num_parallel_calls=tf.data.AUTOTUNE).shuffle(8)
        with around():
            iterator = iter(data)
            found.append((_tuned(iterator), [int(x) for x in (*iterator, *data)]))
    return found


def tells(strategy: Any, record: Any) -> None:
    """Trains, and says whether its own dataset is tuned."""
    import tensorflow as tf

    with strategy.scope():
        weight = tf.Variable(1.0, aggregation=tf.VariableAggregation.MEAN)

    def replica(x: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weight * x)
        weight.assign_sub(0.0 * tape.gradient(loss, weight))

    iterator = iter(tf.data.Dataset.range(4, output_type=tf.float32).batch(2))
    for x in iterator:
        strategy.run(replica, args=(x,))
        record.step(loss=float(_tuned(iterator)))


def test_nothing_but_the_thread_is_another() -> None:
    """The elements and their order stay."""
    with Cluster(Topology(worker=1)) as cluster:
        tuned, untuned = cluster.run(_elements)["worker:0"].value
    assert tuned[0]
    assert not untuned[0]
    assert sorted(tuned[1]) == sorted(untuned[1]) == sorted([*range(0, 16, 2)] * 2)
    assert tuned[1] == untuned[1]


@pytest.mark.full
def test_it_is_the_reference_that_does_without() -> None:
    """A run is what the user's program makes of it."""
    verdict = verify(tells, "mirrored-2", explain=False, prove=False)
    assert {(found.observed, found.expected) for found in verdict.findings} == {(1.0, 0.0)}


def _alive(leave: bool) -> list[bool]:
    """Whether iterators are there that nobody holds: of a dataset, and of one for several devices."""
    import gc
    import weakref

    import tensorflow as tf

    from harness.recording.input_pipelines import leave_iterators

    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    data = tf.data.Dataset.range(8).batch(4)
    distributed = iter(strategy.experimental_distribute_dataset(data))
    held: list[Any] = [iter(data), distributed._iterators[0]._iterator]
    seen = [weakref.ref(each) for each in held]
    if leave:
        leave_iterators()
    held.clear()
    del distributed
    gc.collect()
    return [each() is not None for each in seen]


def test_a_script_that_is_ended_waits_for_no_iterator() -> None:
    """They are there until the process ends, and without that are gone with who iterates."""
    for leave in (True, False):
        with Cluster(Topology(worker=1, devices="cpu:2")) as cluster:
            assert cluster.run(_alive, leave)["worker:0"].value == [leave, leave]


_GIVEN_UP = """
import contextlib, sys, time
import tensorflow as tf
from harness.recording.input_pipelines import datasets_outlive

options = tf.data.Options()
options.experimental_optimization.apply_default_optimizations = False  # as Keras has it for arrays
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], 2 * [tf.config.LogicalDeviceConfiguration()]
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

def slow(x):
    time.sleep(0.003)
    return x

with datasets_outlive() if sys.argv[1] == "outlive" else contextlib.nullcontext():
    for _ in range(40):
        data = tf.data.Dataset.range(8).map(lambda x: tf.ensure_shape(tf.numpy_function(slow, [x], tf.int64), []))
        iterator = iter(strategy.experimental_distribute_dataset(data.batch(2).with_options(options)))
        next(iterator)
        del data, iterator
"""


@pytest.mark.full
@pytest.mark.parametrize(("way", "exit_code"), [("outlive", 0), ("as-it-is", -signal.SIGSEGV)])
def test_an_iterator_that_is_given_up_while_it_fetches_kills_nobody(way: str, exit_code: int) -> None:
    """Memory that is given back is overwritten at once, so that TensorFlow's defect shows itself each time."""
    env = {**os.environ, "MALLOC_PERTURB_": "165"}
    done = subprocess.run(
        [sys.executable, "-c", _GIVEN_UP, way], env=env, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == exit_code, done.stderr.decode()[-2000:]
