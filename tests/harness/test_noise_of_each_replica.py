"""Noise that each replica adds to its part of a gradient is right where its spread is that of one device in the sum."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from harness import Program, verify
from harness.evidence.steps import FOR_ALL, Standing
from harness.recording.steps.draw_checks import DrawSource
from harness.recording.steps.row_joins import NotJoinable
from tests.harness._loop import Verified


def _train(strategy: Any, record: Any, *, noise: str) -> None:
    """Three steps with noise on the gradient, as differential privacy has it, of each replica or of their sum."""
    import tensorflow as tf

    x = np.random.default_rng(0).normal(size=(24, 4)).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((x, x.sum(axis=1, keepdims=True))).batch(8)
    with strategy.scope():
        w = tf.Variable(tf.ones([4, 1]), name="w")
    count = float(strategy.num_replicas_in_sync)
    spread = 0.1 / {"root": count**0.5, "count": count, "uniform": count**0.5}.get(noise, 1.0)
    draw = tf.random.uniform if noise == "uniform" else tf.random.normal
    first = noise == "first"

    def replica(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.matmul(x, w) - y) ** 2) / 8.0
        is_first = tf.distribute.get_replica_context().replica_id_in_sync_group == 0
        drawn = spread * draw([4, 1])
        gradient = tape.gradient(loss, w) + (tf.where(is_first, drawn, tf.zeros_like(drawn)) if first else drawn)
        w.assign_sub(0.05 * tf.distribute.get_replica_context().all_reduce("sum", gradient))

    @tf.function
    def step(x: Any, y: Any) -> None:
        strategy.run(replica, args=(x, y))

    for x, y in strategy.experimental_distribute_dataset(data):
        step(x, y)
        record.step(variables=[w])


@pytest.mark.parametrize(
    "strategy",
    [
        "mirrored-2",
        pytest.param("mirrored-3", marks=pytest.mark.full),
        pytest.param("multi_worker-2", marks=pytest.mark.full),
    ],
)
@pytest.mark.parametrize(
    ("noise", "outcome", "codes"),
    [
        ("root", "consistent", []),
        pytest.param("first", "consistent", [], marks=pytest.mark.full),
        pytest.param("whole", "inconsistent", ["own"], marks=pytest.mark.full),
        pytest.param("count", "consistent", ["own"], marks=pytest.mark.full),
    ],
)
def test_noise_adds_up_to_that_of_one_device(strategy: str, noise: str, outcome: str, codes: list[str]) -> None:
    """The variances of normal noise add up, so that the root of the number of replicas is right.

    Noise that is averaged is that of one device only on the condition that each replica has its own.
    """
    verdict = verify(Program.of(functools.partial(_train, noise=noise)), strategy, explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)
    assert [each.code for each in verdict.conditions] == codes
    notes = " ".join(verdict.notes)
    assert ("adds up to noise of the spread" in notes) == (noise == "root")
    assert ("only that of the first one counts" in notes) == (noise == "first")
    assert ("varies less than what follows from one draw" in notes) == (noise == "count")


@pytest.mark.full
def test_numbers_that_are_not_normal_do_not_add_up() -> None:
    """The sum of uniform numbers is not uniform."""
    verdict = verify(Program.of(functools.partial(_train, noise="uniform")), "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == "inconsistent", str(verdict)


_OF_FUNCTION = """
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
x = np.random.default_rng(0).normal(size=(32, 5)).astype("float32")
with strategy.scope():
    w = tf.Variable(tf.zeros([5]), name="w")

def replica(x):
    scale = 1.0 + 0.1 * tf.random.normal([])
    with tf.GradientTape() as tape:
        loss = scale * tf.reduce_sum((tf.linalg.matvec(x, w) - 1.0) ** 2) / SIZE
    w.assign_sub(0.1 * tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, w)))

@tf.function
def step(iterator):
    strategy.run(replica, args=(next(iterator),))

def rows(context):
    return tf.data.Dataset.from_tensor_slices(x).batch(16 // context.num_replicas_in_sync)

iterator = iter(strategy.distribute_datasets_from_function(rows))
for _ in range(2):
    step(iterator)
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("size", "outcome"), [("16.0", "consistent"), ("tf.cast(tf.shape(x)[0], tf.float32)", "inconsistent")]
)
def test_replicas_that_stand_for_wholes_have_one_element_of_a_worker_s(
    size: str, outcome: str, verified: Verified
) -> None:
    """Its data would end before the run's if each of them took one."""
    verdict = verified(_OF_FUNCTION.replace("SIZE", size), "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)
    assert [each.code for each in verdict.conditions] == ["own"]


_SUMS = Standing(own="sum")


def _joined(operation: str, standing: Standing, *parts: list[float]) -> list[float]:
    source = DrawSource(operation, "train.py:1", by_keras=False, seeded=False)
    arrays = [np.array(part, np.float32) for part in parts]
    found, _ = source.joined(arrays, np.zeros(len(parts[0]), np.float32), standing)
    return [float(each) for each in found]


def test_only_normal_numbers_of_each_replica_are_added_up() -> None:
    """The sum over the root of the number of replicas; equal numbers are those that one device draws."""
    assert _joined("RandomStandardNormal", _SUMS, [3.0, 1.0], [5.0, 1.0]) == pytest.approx([8 / 2**0.5, 2 / 2**0.5])
    assert _joined("RandomStandardNormal", _SUMS, [3.0, 1.0], [3.0, 1.0]) == [3.0, 1.0]
    assert _joined("RandomUniform", Standing(own="first"), [3.0, 1.0], [5.0, 1.0]) == [3.0, 1.0]
    for operation, standing in (("RandomUniform", _SUMS), ("RandomStandardNormal", FOR_ALL)):
        with pytest.raises(NotJoinable):
            _joined(operation, standing, [3.0, 1.0], [5.0, 1.0])


_BY_HAND = """
import math
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
x = np.random.default_rng(0).normal(size=(24, 3)).astype("float32")
data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(8))
with strategy.scope():
    w = tf.Variable(tf.zeros([3, 1]))

def replica(x):
    gradient = tf.matmul(x, x @ w - 1.0, transpose_a=True)
    gradient += tf.random.normal([3, 1], stddev=0.5 / SPREAD)
    w.assign_sub(0.1 * tf.distribute.get_replica_context().all_reduce("SUM", gradient) / 8)

@tf.function
def step(batch):
    strategy.run(replica, args=(batch,))

for batch in data:
    step(batch)
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("spread", "outcome"),
    [("math.sqrt(strategy.num_replicas_in_sync)", "consistent"), ("1.0", "inconsistent")],
)
def test_noise_on_a_gradient_that_no_tape_takes(spread: str, outcome: str, verified: Verified) -> None:
    """What such a step moves has the noise in it, also on one device."""
    verdict = verified(_BY_HAND.replace("SPREAD", spread), "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)
