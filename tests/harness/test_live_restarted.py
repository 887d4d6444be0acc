"""A training that is started again begins with what its checkpoint has, or else that is said."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness._called import lockstep

_SCRIPT = """import sys

import numpy as np
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    w = tf.Variable(tf.ones(3))
    done = tf.Variable(0, trainable=False, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
checkpoint = tf.train.Checkpoint(w=w, done=done)
if latest := tf.train.latest_checkpoint("saved"):
    checkpoint.restore(latest)
    if "lost" in sys.argv:
        w.assign(0.5 * w)


def one(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum((tf.linalg.matvec(x, w) - 1.0) ** 2) / 8
    gradient = tape.gradient(loss, w)
    w.assign_sub(0.1 * tf.distribute.get_replica_context().all_reduce("SUM", gradient))
    done.assign_add(1)


@tf.function
def step(x):
    strategy.run(one, args=(x,))


begun = int(done.numpy())
rows = np.random.default_rng(1).normal(size=(8 * 20, 3)).astype("f4")
data = tf.data.Dataset.from_tensor_slices(rows).batch(8).skip(begun)
for number, x in enumerate(strategy.experimental_distribute_dataset(data), begun + 1):
    step(x)
    if number in (4, 8):
        checkpoint.save("saved/it")
    if number == 10:
        break
"""


@pytest.mark.full
@pytest.mark.parametrize("lost", [False, True])
def test_a_checkpoint_that_counts_its_saves_hides_nothing(lost: bool, here: Path) -> None:
    """It makes that variable when it saves for the first time. The training goes on after step 8 from there."""
    Path("train.py").write_text(_SCRIPT)
    watch = (sys.executable, "-m", "harness.watch", "--every", "4", "--out", "left", "train.py", *["lost"] * lost)
    for _ in range(2):
        subprocess.run(watch, check=True, timeout=300)
    said = lockstep("judge", "left", "--json", code=int(lost)).stdout
    steps = list(map(json.loads, said.splitlines()))
    found = [(each["training"], each["step"], finding["law"]) for each in steps for finding in each.get("findings", ())]
    assert found == ([(1, 1, "restarts")] if lost else [])
