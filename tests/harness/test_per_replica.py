"""State that each replica has for itself: reported as if it were that of all, or in variables of a list."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from harness import verify


def _train(strategy: Any, record: Any, way: str) -> None:
    """The center of each batch, kept in a variable of which the first replica counts, or the mean of all."""
    import numpy as np
    import tensorflow as tf

    x = np.random.default_rng(1).normal(size=(96, 4)).astype(np.float32)
    data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(12))
    own = {"synchronization": tf.VariableSynchronization.ON_READ, "aggregation": getattr(tf.VariableAggregation, way)}
    with strategy.scope():
        w = tf.Variable(tf.zeros([4]), aggregation=tf.VariableAggregation.MEAN)
        center = tf.Variable(tf.zeros([4]), trainable=False, **own)

    def replica_step(x: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((x - w) ** 2) / 12
        w.assign_sub(0.1 * tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, w)))
        center.assign(0.7 * center + 0.3 * tf.reduce_mean(x, axis=0))

    @tf.function
    def step(x: Any) -> None:
        strategy.run(replica_step, args=(x,))

    for batch in data:
        step(batch)
        record.step(variables=[w, center], metrics={"center": center.read_value()} if way == "MEAN" else {})


def _in_a_list(strategy: Any, record: Any) -> None:
    """Each replica keeps its part of the gradient in a variable of its own; what is subtracted is their sum."""
    import numpy as np
    import tensorflow as tf

    x = np.random.default_rng(0).normal(size=(48, 4)).astype(np.float32)
    data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(12))
    with strategy.scope():
        w = tf.Variable(tf.zeros([4]), aggregation=tf.VariableAggregation.MEAN, name="w")
    parts = [tf.Variable(tf.zeros([4]), trainable=False, name=f"part{i}") for i in range(strategy.num_replicas_in_sync)]

    def replica_step(x: Any) -> None:
        context = tf.distribute.get_replica_context()
        mine = parts[int(tf.get_static_value(context.replica_id_in_sync_group))]
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((x - w) ** 2) / 12
        mine.assign(tape.gradient(loss, w))
        w.assign_sub(0.1 * context.all_reduce("SUM", mine.read_value()))

    @tf.function
    def step(x: Any) -> None:
        strategy.run(replica_step, args=(x,))

    for batch in data:
        step(batch)
        record.step(variables=[w])


@pytest.mark.full
@pytest.mark.parametrize(
    ("program", "outcome"),
    [
        pytest.param(partial(_train, way="MEAN"), "consistent", id="mean"),
        pytest.param(partial(_train, way="ONLY_FIRST_REPLICA"), "inconsistent", id="first"),
        pytest.param(_in_a_list, "abstained", id="list"),
    ],
)
def test_what_each_replica_has_for_itself(program: Callable[..., None], outcome: str) -> None:
    """A mean of all is right, also as a number that noise in the examples has to move; one of them is not."""
    verdict = verify(program, "mirrored-2", prove=False, explain=False)
    assert verdict.outcome == outcome
    assert ("'part1'" in str(verdict.abstained)) is (outcome == "abstained")


def drawn_by_each(strategy: Any, record: Any) -> None:
    """One factor for all rows of a replica, drawn anew in each step."""
    import tensorflow as tf

    rows = tf.random.stateless_normal((24, 3), (1, 2))
    data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(rows).batch(8))
    with strategy.scope():
        w = tf.Variable(tf.ones(3), name="w")

    def replica_step(x: Any) -> None:
        factor = tf.random.uniform(())
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.linalg.matvec(x * factor, w) - 1.0) ** 2) / 8
        w.assign_sub(0.1 * tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, w)))

    step = tf.function(lambda x: strategy.run(replica_step, args=(x,)))
    for batch in data:
        step(batch)
        record.step(variables=[w])


@pytest.mark.full
def test_what_several_replicas_have_settled_is_known() -> None:
    """No note says any more that one replica cannot know it; one says that draws were averaged."""
    verdict = verify(drawn_by_each, "mirrored-2", prove=False, explain=False)
    assert verdict.outcome == "consistent"
    assert [each.code for each in verdict.conditions] == ["own"]
    assert [note.partition(",")[0] for note in verdict.notes] == [
        "replicas average what follows from draws of their own"
    ]
