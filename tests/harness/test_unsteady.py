"""Scripts whose number of steps follows from a clock: nobody knows how many one device should do."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import verify

_TRAIN = """\
import time

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
x = np.random.default_rng(7).normal(size=(1600, 5)).astype("float32")
with strategy.scope():
    w = tf.Variable(tf.zeros([5]), name="w")


@tf.function
def train(batch):
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.linalg.matvec(x, w) - 1.0) ** 2) / 16
        w.assign_sub(0.05 * tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, w)))

    strategy.run(step, args=(batch,))


data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(16))
began, steps = time.monotonic(), 0
for batch in data:
    train(batch)
    steps += 1
    if {ends}:
        break
    time.sleep(0.1)
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("ends", "outcome"),
    [
        ("time.monotonic() - began > 3", "abstained"),
        ("steps == 4 + strategy.num_replicas_in_sync % 2", "inconsistent"),
    ],
)
def test_a_budget_of_time_is_no_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str, outcome: str
) -> None:
    """A number of steps that follows from the number of replicas is one."""
    (tmp_path / "train.py").write_text(_TRAIN.format(ends=ends))
    monkeypatch.chdir(tmp_path)
    verdict = verify(["python", "train.py"], "mirrored-3", prove=False, explain=False)
    assert verdict.outcome == outcome
    assert ("follows from a clock" in str(verdict.abstained)) is (outcome == "abstained")
