"""A training that is started again begins with what its checkpoint has, or else that is said."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest

from harness.evidence.saved_states import SavedState, leave, saved_states, sum_of
from tests.harness._called import lockstep

_SCRIPT = """import sys
import time

import numpy as np
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    w = tf.Variable(tf.ones(3), name="w")
    seen = tf.Variable(tf.zeros(3), name="seen", trainable=False)
    done = tf.Variable(0, trainable=False, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
    statistics = tf.Variable(tf.zeros(3), name="moving_mean", trainable=False)
saved = {} if "unsaved" in sys.argv else {"seen": seen}
saved |= {} if "statistics" in sys.argv else {"statistics": statistics}
checkpoint = tf.train.Checkpoint(w=w, done=done, **saved)
if latest := tf.train.latest_checkpoint("saved"):
    checkpoint.restore(latest)
    if "lost" in sys.argv:
        w.assign(0.5 * w)


def one(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum((tf.linalg.matvec(x, w) - 1.0) ** 2) / 8
    gradient = tape.gradient(loss, w)
    gradient = tf.distribute.get_replica_context().all_reduce("SUM", gradient)
    w.assign_sub(0.1 * gradient)
    seen.assign(0.9 * seen + 0.1 * gradient)
    mean = tf.distribute.get_replica_context().all_reduce("MEAN", tf.reduce_mean(x, 0))
    statistics.assign(0.9 * statistics + 0.1 * mean)


@tf.function
def step(x):
    strategy.run(one, args=(x,))


begun = int(done.numpy())
rows = np.random.default_rng(1).normal(size=(8 * 20, 3)).astype("f4")
data = tf.data.Dataset.from_tensor_slices(rows).batch(8).skip(begun)
for number, x in enumerate(strategy.experimental_distribute_dataset(data), begun + 1):
    step(x)
    time.sleep(0.05)  # so that digests after steps are affordable
    done.assign_add(1)
    if number in (4, 8):
        trained = w.numpy()
        if "swapped" in sys.argv:
            w.assign(seen)
        checkpoint.save("saved/it")
        w.assign(trained)
    if number == (8 if "stops" in sys.argv else 10):
        break
assert "fails" not in sys.argv or begun < 8
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("how", "lost"),
    [
        ("", None),
        ("stops", None),
        ("lost", "w"),
        ("stops unsaved", "seen"),
        ("unsaved", "seen"),
        ("statistics", "moving_mean"),
        ("stops swapped", "w"),
    ],
)
def test_a_restart_begins_with_what_a_checkpoint_has(how: str, lost: str | None, here: Path) -> None:
    """The training goes on after step 8 from there, whether it had ended there or two steps later.

    The checkpoint counts its saves, in a variable that it makes when it saves for the first time. The program counts
    its steps after they have ended.
    """
    Path("train.py").write_text(_SCRIPT)
    watch = (sys.executable, "-m", "harness.watch", "--every", "4", "--out", "left", "train.py", *how.split())
    for _ in range(2):
        subprocess.run(watch, check=True, timeout=300)
    said = lockstep("judge", "left", "--json", code=0 if lost is None else 1).stdout
    steps = list(map(json.loads, said.splitlines()))
    every = [(each["training"], each["step"], finding) for each in steps for finding in each.get("findings", ())]
    found = [(training, step, each["law"], each.get("variable")) for training, step, each in every]
    assert found == ([] if lost is None else [(1, 1, "restarts", lost)])


@pytest.mark.full
@pytest.mark.parametrize("fails", [False, True])
def test_a_judge_whose_script_goes_on_from_the_end_says_so(fails: bool, here: Path) -> None:
    """It finds the last checkpoint of the job, and takes no step, or even fails since it takes none."""
    Path("train.py").write_text(_SCRIPT.replace("8 * 20", "8 * 8"))
    watch = (sys.executable, "-m", "harness.watch", "--every", "4", "--out", "left", "train.py", *["fails"] * fails)
    subprocess.run(watch, check=True, timeout=300)
    if fails:
        assert "give it a directory without that; the script fails" in lockstep("judge", "left", code=3).stdout
    else:
        with pytest.raises(click.UsageError, match="takes no step here: if it goes on from its own last checkpoint"):
            lockstep("judge", "left", code=2)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int64", "uint8", "bool"])
def test_bits_are_added_up_as_on_the_device(dtype: str) -> None:
    """In so few bits that the sum wraps around."""
    array = (1000 * np.random.default_rng(0).normal(size=(40, 50))).astype(dtype)
    before = "from harness.recording.steps.digest_operations import _sum; import numpy as np, sys; "
    made = f"a = (1000 * np.random.default_rng(0).normal(size=(40, 50))).astype({dtype!r}); "
    program = f"{before}{made}import tensorflow as tf; print(int(_sum(tf.constant(a))))"
    assert int(subprocess.check_output([sys.executable, "-c", program], timeout=100)) == sum_of(array)


def test_half_a_line_is_no_checkpoint(tmp_path: Path) -> None:
    """A process was killed while it wrote it."""
    for step in (3, 6):
        leave(tmp_path, SavedState(step, {"w#0": step}))
    with (tmp_path / "saved.jsonl").open("ab") as file:
        file.write(b'{"step":9,"sums":{"w#0"')
    assert [each.step for each in saved_states(tmp_path)] == [3, 6]
