"""Runs of a reference iterate without the thread of tf.data that may make the end of an iterator wait."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from harness import verify
from simulator import Cluster, Topology


def _tuned(iterator: Any) -> bool:
    return iterator._dataset.options().autotune.enabled is not False


def _elements() -> list[tuple[bool, list[int]]]:
    """Of one dataset, with the thread and without."""
    import tensorflow as tf

    from harness.recording.autotune import without_autotune

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

    from harness.recording.autotune import leave_iterators

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
