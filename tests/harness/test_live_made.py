"""What a program makes in the first call of a function cannot be set before it: the judge lets that call pass."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.evidence.steps import StepFileWriter, loose_steps
from harness.evidence.trace import Seen
from harness.recording.steps import SampleWriter
from harness.recording.steps.protocol import StepBegin, StepEnd
from tests.harness._called import lockstep

_SCRIPT = """import sys

import numpy as np
import tensorflow as tf
import tf_keras

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
rows = np.random.default_rng(1).normal(size=(8 * 24, 3)).astype("f4")
with strategy.scope():
    layers = [tf_keras.Input((3,)), tf_keras.layers.Dense(4), tf_keras.layers.BatchNormalization()]
    model = tf_keras.Sequential([*layers, tf_keras.layers.Dense(1)])
    model.compile(tf_keras.optimizers.Adam(0.01), "mse", run_eagerly="eager" in sys.argv)
    weights = [tf.Variable([1.0, 2.0, 3.0]), tf.Variable([0.5, -0.5, 1.5])]
    optimizers = [tf_keras.optimizers.Adam(0.01), tf_keras.optimizers.RMSprop(0.01)]


def one_of(which):
    def one(x, factor):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.maximum(tf.linalg.matvec(x, weights[which]) - 1.0, -1.0) ** 2) / 8
        gradient = tape.gradient(loss, weights[which])
        if tf.distribute.get_replica_context().replica_id_in_sync_group == 1:
            gradient *= factor
        optimizers[which].apply_gradients([(gradient, weights[which])])

    return one


def step_of(which):
    @tf.function
    def step(x, factor):
        strategy.run(one_of(which), args=(x, factor))

    return step


def lazily(x, factor):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum((unbuilt(x) - x[:, :1]) ** 2) / 8
    kernel = unbuilt.trainable_variables
    optimizers[0].apply_gradients(zip(tape.gradient(loss, kernel), kernel))


first, second = step_of(0), step_of(1)
if "lazy" in sys.argv:
    with strategy.scope():
        unbuilt = tf_keras.Sequential([tf_keras.layers.Dense(1)])
    first = tf.function(lambda x, factor: strategy.run(lazily, args=(x, factor)))
if "fit" in sys.argv:
    data = tf.data.Dataset.from_tensor_slices((rows, rows[:, :1])).batch(8)
    model.fit(data, epochs=1, validation_data=data.take(1), verbose=0)
    if "again" in sys.argv:
        model.layers[0].trainable = False
        with strategy.scope():
            model.compile(tf_keras.optimizers.Adam(0.001), "mse")
    model.fit(data, epochs=2, validation_data=data.take(1), verbose=0)
else:
    data = tf.data.Dataset.from_tensor_slices(rows).batch(8).repeat()
    with strategy.scope():
        counted = tf.Variable(0, dtype=tf.int64) if "counted" in sys.argv else None
    for number, x in enumerate(strategy.experimental_distribute_dataset(data), 1):
        if counted is not None:
            number = int(counted.numpy()) + 1
        if number > 72:
            break
        factor = 2.0 if number > 50 and "wrong" in sys.argv else 1.0
        (second if "two" in sys.argv and number % 3 == 0 else first)(x, factor)
        if counted is not None:
            counted.assign_add(1)
"""


def _judged(*args: str, every: int = 7) -> dict[int, str]:
    """By step the outcome."""
    Path("train.py").write_text(_SCRIPT)
    watch = (sys.executable, "-m", "harness.watch", "--every", str(every), "--out", "left", "train.py", *args)
    subprocess.run(watch, check=True, timeout=300)
    said = lockstep("judge", "left", "--json", code=1 if "wrong" in args else 0).stdout
    return {step["step"]: step["outcome"] for step in map(json.loads, said.splitlines())}


_EVERY_7TH = (1, *range(7, 71, 7))


@pytest.mark.full
@pytest.mark.parametrize("args", [("loop",), ("two",), ("fit",), ("fit", "eager"), ("fit", "again")], ids=" ".join)
def test_slots_that_the_first_call_makes_are_set_before_later_ones(args: tuple[str, ...], here: Path) -> None:
    """More than eight steps, so that the judge begins anew in the middle of the training.

    Two functions of one code are two, also where a model is compiled again; slots of the optimizer before are gone.
    """
    found = _judged(*args)
    assert {step: found[step] for step in _EVERY_7TH} == dict.fromkeys(_EVERY_7TH, "consistent")
    assert {*found.values()} == {"consistent"}


@pytest.mark.full
def test_weights_that_the_first_call_draws_are_not_judged_in_it(here: Path) -> None:
    """They begin with other values here, since nobody gives a seed."""
    assert _judged("lazy") == dict.fromkeys(_EVERY_7TH, "consistent") | {1: "abstained"}


@pytest.mark.full
def test_what_a_program_does_by_its_own_count_it_does_in_the_judge_too(here: Path) -> None:
    """The count that the run had is in a variable, by which the judge would end, or call the other function."""
    assert {*_judged("two", "counted").values()} == {"consistent"}


@pytest.mark.full
@pytest.mark.parametrize("counted", [(), ("counted",)])
def test_a_mistake_after_them_is_found(counted: tuple[str, ...], here: Path) -> None:
    """In either function: from step 51 on one replica's gradient is twice what it should be."""
    found = _judged("two", "wrong", *counted)
    assert found == {step: "inconsistent" if step > 50 else "consistent" for step in found}
    assert {each for each in found if each > 50 and each % 3 == 0} - {*_EVERY_7TH}


_RESTORED = """import sys

import numpy as np
import tensorflow as tf
import tf_keras

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    weights = tf.Variable([1.0, 2.0, 3.0])
    optimizer = tf_keras.optimizers.Adam(0.01)
checkpoint = tf.train.Checkpoint(weights=weights, optimizer=optimizer)
if "restore" in sys.argv:
    checkpoint.restore(tf.train.latest_checkpoint("saved"))


@tf.function
def step(x):
    def one(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.maximum(tf.linalg.matvec(x, weights) - 1.0, -1.0) ** 2) / 8
        optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])

    strategy.run(one, args=(x,))


rows = np.random.default_rng(1).normal(size=(8 * 12, 3)).astype("f4")
for x in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(rows).batch(8)):
    step(x)
checkpoint.save("saved/part")
"""


@pytest.mark.full
@pytest.mark.parametrize("is_watched", [True, False])
def test_slots_that_a_checkpoint_may_have_filled_are_not_judged_where_they_are_made(
    here: Path, *, is_watched: bool
) -> None:
    """A restart, and a training whose first part nobody watched. Later steps begin with what they began with."""
    Path("train.py").write_text(_RESTORED)
    watch = (sys.executable, "-m", "harness.watch", "--every", "4", "--out", "left", "train.py")
    subprocess.run(watch if is_watched else (sys.executable, "train.py"), check=True, timeout=300)
    subprocess.run((*watch, "restore"), check=True, timeout=300)
    Path("saved").rename("moved")
    said = [json.loads(line) for line in lockstep("judge", "left", "--json").stdout.splitlines()]
    found = {step["step"]: step["outcome"] for step in said if step["training"] == int(is_watched)}
    assert found == {1: "abstained"} | dict.fromkeys((4, 8, 12), "consistent")


_LETTING_GO = """import gc
import weakref

import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def trained(steps):
    with strategy.scope():
        weight = tf.Variable(1.0)

    @tf.function
    def step():
        def one():
            with tf.GradientTape() as tape:
                loss = weight**2
            weight.assign_sub(0.1 * tape.gradient(loss, weight))

        strategy.run(one)

    for _ in range(steps):
        step()
    return weakref.ref(weight)


first = trained(5)
gc.collect()
trained(2)
gc.collect()
print("gone:", first() is None)
"""


def test_a_watched_training_lets_go_of_what_it_does_not_use(here: Path) -> None:
    """What the steps of a model have left is read, and is not kept until a later one is left."""
    Path("train.py").write_text(_LETTING_GO)
    watch = (sys.executable, "-m", "harness.watch", "--every", "100", "--out", "left", "train.py")
    found = subprocess.run(watch, check=True, timeout=300, capture_output=True, text=True).stdout
    assert "gone: True" in found


@pytest.mark.parametrize(
    ("every", "name", "left"),
    [
        (3, lambda number: "rare" if number % 3 == 2 else "often", sorted({1, *range(3, 41, 3), *range(2, 41, 6)})),
        (10, str, [*range(1, 17), 20, 30, 40]),  # a program may make one for each step: not each is left
    ],
)
def test_each_function_has_its_turn(every: int, name: Callable[[int], str], left: list[int], tmp_path: Path) -> None:
    """Each third step is one of the same: another one is left as it comes, and after twice as many."""
    writer = StepFileWriter(print)
    leaving = SampleWriter(every, writer, print, lambda tensors, take: take([*tensors]), lambda digests: None)
    leaving.into(tmp_path, 1 << 20, range(1))
    for number in range(1, 41):
        leaving.called(name(number), (), ())
        leaving.begin(StepBegin())
        leaving.end(tuple, StepEnd(done=True, trained=True))
        leaving.saw(Seen(number, 0.0))
        writer.close()
    leaving.close()
    assert list(loose_steps(tmp_path)) == left
