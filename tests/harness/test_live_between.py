"""What a program does between its steps, and the numbers that it gives to them, belong to a watched training."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.live.arrangement import arranged
from tests.harness._called import lockstep

_SCRIPT = """import os
import sys

import numpy as np
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    w = tf.Variable([1.0, 2.0, 3.0])
    rate = tf.Variable(0.1, trainable=False)
    optimizer = tf.keras.optimizers.SGD(0.1)
    optimizer.build([w])
    own = {"synchronization": tf.VariableSynchronization.ON_READ, "aggregation": tf.VariableAggregation.SUM}
    total = tf.Variable(tf.zeros(3), trainable=False, **own)


def one(x, weight, floor, scale, wrong):
    replica = tf.distribute.get_replica_context()
    with tf.GradientTape() as tape:
        loss = weight * scale * tf.reduce_sum(tf.maximum(tf.linalg.matvec(x, w) - 1.0, floor) ** 2) / 8
    gradient = tape.gradient(loss, w)
    if wrong:
        gradient *= 1.0 + 0.5 * tf.cast(replica.replica_id_in_sync_group, tf.float32)
    w.assign_sub(rate * replica.all_reduce("SUM", gradient))


@tf.function
def step(x, weight, floor, scale, wrong):
    strategy.run(one, args=(x, weight, floor, scale, wrong))


@tf.function
def add(x):
    def one(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.linalg.matvec(x, w) - 1.0) ** 2) / 16
        total.assign_add(tape.gradient(loss, w))

    strategy.run(one, args=(x,))


@tf.function
def apply():
    def one():
        optimizer.apply([total.read_value()], [w])
        total.assign(tf.zeros(3))

    strategy.run(one)


@tf.function
def carry(x, momentum, flag=False):
    def one(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.linalg.matvec(x, w) - 1.0) ** 2) / 8
        return tape.gradient(loss, w)

    found = strategy.reduce("SUM", strategy.run(one, args=(x,)), axis=None)
    if flag:
        return momentum
    w.assign_sub(0.02 * (0.9 * momentum + found))
    return 0.9 * momentum + found


@tf.function
def other(x):
    strategy.run(one, args=(x, 0.5, -1.0, 1.0, "always" in sys.argv))


@tf.function
def recur(x, state):
    def one(x, state):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.linalg.matvec(x + state, w) - 1.0) ** 2) / 8
        w.assign_sub(0.01 * tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, w)))
        return 0.5 * (x + state)

    return strategy.run(one, args=(x, state))


momentum, state = tf.zeros(3), None
count = int(open("steps").read()) if os.path.exists("steps") else 12
rows = np.random.default_rng(1).normal(size=(8 * count, 3)).astype("f4")
data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(rows).batch(8))
for number, x in enumerate(data, 1):
    if "accumulate" in sys.argv:
        add(x)
        if number % 2 == 0:
            apply()
    elif "carry" in sys.argv:
        carry(momentum=tf.zeros(3), flag=True, x=x)
        found = carry(x, momentum)
        momentum = 0.5 * (momentum + found) if "python" in sys.argv else found
    elif "recur" in sys.argv:
        state = recur(x, x if state is None else state)
    elif "alternate" in sys.argv and number % 2 == 0:
        other(x)
    else:
        weight = tf.constant(min(1.0, number / 10))
        step(x, weight, np.float32(-number), 1.0 - number / 20, "wrong" in sys.argv and number > 6)
    rate.assign(0.1 * 0.9**number)
"""


def _judged(*args: str, steps: int = 12) -> dict[int, tuple[str, str | None]]:
    """By step the outcome, and what is told of replicas that are wrong; the judge's script takes so many steps."""
    Path("train.py").write_text(_SCRIPT)
    watch = (sys.executable, "-m", "harness.watch", "--every", "4", "--out", "left", "train.py", *args)
    subprocess.run(watch, check=True, timeout=300)
    Path("steps").write_text(str(steps))
    said = lockstep("judge", "left", "--json", code=1 if "wrong" in args else 0).stdout
    return {step["step"]: (step["outcome"], step.get("again")) for step in map(json.loads, said.splitlines())}


def test_what_python_computes_from_the_number_of_a_step_accuses_nobody(here: Path) -> None:
    """A rate that is set after each step, and arguments that are a tensor, numbers of NumPy, and one of Python.

    That these change is said.
    """
    assert _judged() == dict.fromkeys((1, 4, 8, 12), ("consistent", None))
    pattern = r"is given (\S+) in step 1 and (\S+) in step 4 as value (\d) of its arguments; whether"
    told = re.findall(pattern, lockstep("judge", "left").stderr)
    assert told == [("0.1", "0.4", "2"), ("-1", "-4", "3"), ("0.95", "0.8", "4")]


@pytest.mark.full
def test_a_mistake_that_an_argument_begins_is_found_and_made_again(here: Path) -> None:
    """From step 7 on one replica's gradient is another."""
    right, wrong = ("consistent", None), ("inconsistent", "persistent")
    assert _judged("wrong") == {1: right, 4: right, 8: wrong, 12: wrong}


@pytest.mark.full
def test_no_step_passes_to_which_the_judge_does_not_come(here: Path) -> None:
    """Its script ends sooner, as where examples are missing. Places are used again, as far as there are any."""
    right, wrong = ("consistent", None), ("inconsistent", "persistent")
    assert _judged("wrong", steps=3) == {1: right, 4: right, 8: wrong, 12: wrong}
    Path("left", "judged.jsonl").unlink()
    Path("steps").write_text("1")
    steps = map(json.loads, lockstep("judge", "left", "--json").stdout.splitlines())
    assert [step["outcome"] for step in steps] == ["consistent", *["abstained"] * 3]


@pytest.mark.full
def test_a_step_is_judged_by_the_function_that_it_was(here: Path) -> None:
    """Each fourth is one of the second: the first one has its own turns, after twice as many steps."""
    assert _judged("alternate") == dict.fromkeys((1, 2, 4, 8, 9, 12), ("consistent", None))


@pytest.mark.full
def test_what_each_replica_has_added_up_is_what_a_step_begins_with(here: Path) -> None:
    """Of three steps two add up gradients, and one applies them: 6, 12 and 18 do that."""
    found = _judged("accumulate")
    assert found == dict.fromkeys((1, 3, 4, 8, 12, 16), ("consistent", None))


@pytest.mark.full
@pytest.mark.parametrize("args", [("carry",), ("carry", "python")], ids=" ".join)
def test_what_the_program_carries_from_call_to_call_is_what_the_run_had(args: tuple[str, ...], here: Path) -> None:
    """Whether a call has computed it or Python. A call that only spells its arguments otherwise is another one."""
    found = _judged(*args)
    assert {1, 4, 8, 9, 12, 16, 17, 20, 24} <= {*found}
    assert {outcome for outcome, _ in found.values()} == {"consistent"}


@pytest.mark.full
def test_what_each_replica_has_computed_before_is_not_known(here: Path) -> None:
    """A step that is given it is not judged: nobody knows what one replica would have computed in their place."""
    found = _judged("recur")
    assert found == {1: ("consistent", None)} | dict.fromkeys((4, 8, 12), ("abstained", None))


@pytest.mark.full
def test_a_mistake_in_the_second_of_two_functions_is_made_again(here: Path) -> None:
    """It is looked for where the script calls that one. In step 2 that replica has no gradient."""
    found = _judged("alternate", "wrong", "always")
    right, wrong = ("consistent", None), ("inconsistent", "persistent")
    assert found == {1: right, 2: right, 4: wrong, 8: wrong, 9: wrong, 12: wrong}


@pytest.mark.parametrize(
    ("functions", "order", "steps", "places"),
    [
        ({5: "d", 6: "g"}, "", (5, 5, 6), {5: 2, 6: 3}),  # the first call passes
        ({5: "g", 6: "d"}, "", (5, 5, 6), {5: 2, 6: 3}),  # which is known afterwards
        ({1: "d", 6: "d"}, "", (1, 6), {1: 1, 6: 2}),  # but where it makes what is made then too
        ({4: "g", 8: "g", 9: "d"}, "dgdgdg", (4, 4, 9, 4, 4, 8), {4: 4, 8: 6, 9: 3}),
        ({1: "d", 2: "g", 4: "g", 9: "d"}, "dgdg", (1, 2, 9, 4), {1: 1, 2: 2, 4: 4, 9: 3}),
        ({4: "g", 8: "g"}, "dgdg", (4, 4, 4, 4), {4: 4}),  # the other one waits
        ({4: "x"}, "dg", (4, 4, 4, 4), {4: 2}),  # more is asked for
        ({4: "x"}, "dgdg", (4, 4, 4, 4), {4: 2}),
    ],
)
def test_steps_have_the_place_of_their_function(
    functions: dict[int, str], order: str, steps: tuple[int, ...], places: dict[int, int]
) -> None:
    """Others fill the rest. Steps 1 and 2 make variables."""
    found = arranged(functions, order, 4, making={1, 2})
    assert (found.steps, found.places) == (steps, places)
    wrong = {step for step, place in places.items() if "dgdgdg"[place - 1] != functions[step]}
    first = {step for step, place in places.items() if place <= 2 and step > 2}
    assert {*found.misplaced("dgdgdg")} == wrong | first


def test_a_place_is_filled_by_what_its_function_can_compute_with() -> None:
    """Examples of another one may have another shape. Where none is known any step does."""
    known = arranged({4: "g", 8: "g"}, "dgdgdg", 4, making={1, 2}, fillers={"d": 9, "g": 2})
    assert (known.steps, known.places) == ((9, 2, 9, 4, 9, 8), {4: 4, 8: 6})
    unknown = arranged({4: "g", 8: "g"}, "dgdgdg", 4, making={1, 2}, fillers={"g": 2})
    assert (unknown.steps, unknown.places) == ((4, 2, 4, 4, 4, 8), {4: 4, 8: 6})


_EAGER = """import sys

import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
data = tf.data.Dataset.from_tensor_slices(tf.random.stateless_normal([160, 3], seed=[1, 2])).batch(8)
with strategy.scope():
    w = tf.Variable(tf.zeros([3]))
done = 0


def one(x):
    replica = tf.distribute.get_replica_context()
    with tf.GradientTape() as tape:
        loss = min(1.0, done / 20) * tf.reduce_sum((tf.linalg.matvec(x, w) - 1.0) ** 2) / 8
    gradient = tape.gradient(loss, w)
    if "wrong" in sys.argv:
        gradient *= 1.0 + tf.cast(replica.replica_id_in_sync_group, tf.float32)
    w.assign_sub(0.01 * replica.all_reduce("sum", gradient))


for x in strategy.experimental_distribute_dataset(data):
    done += 1
    strategy.run(one, args=(x,))
"""


@pytest.mark.full
@pytest.mark.parametrize("wrong", [False, True])
def test_what_an_eager_step_takes_from_python_accuses_nobody(wrong: bool, here: Path) -> None:
    """Nobody knows what it was: all replicas compute another step here, right ones and wrong ones.

    At the first step, where it is the same here, a wrong one is found.
    """
    Path("train.py").write_text(_EAGER)
    watch = (sys.executable, "-m", "harness.watch", "--every", "10", "--out", "left", "train.py", *["wrong"] * wrong)
    subprocess.run(watch, check=True, timeout=300)
    said = lockstep("judge", "left", "--json", code=int(wrong)).stdout
    first, *others = map(json.loads, said.splitlines())
    assert first["outcome"] == ("inconsistent" if wrong else "consistent")
    assert [each["outcome"] for each in others] == ["abstained"] * 2
    assert all("its Python runs each time" in each["why"] for each in others)
