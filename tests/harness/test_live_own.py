"""What each replica keeps for itself is judged by as many replicas, and by one device as far as it has that."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.evidence.own_state import Way, joined
from harness.evidence.trace import Array, SeenVariable
from harness.judging.laws.protocol import Finding
from harness.live.own_state import judge_own_state
from tests.harness._called import lockstep

_SCRIPT = """import os
import sys

import numpy as np
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
how = next((each for each in sys.argv if each.isupper()), "SUM")
own = {"synchronization": tf.VariableSynchronization.ON_READ, "aggregation": tf.VariableAggregation[how]}
with strategy.scope():
    w, v = tf.Variable(tf.zeros(3)), tf.Variable(tf.zeros(3))
    totals = [] if "late" in sys.argv else [tf.Variable(tf.zeros(3), trainable=False, **own)]
if os.path.exists("alone") and strategy.num_replicas_in_sync > 1:
    sys.exit("this machine has room for one")
struck = 2.0 if os.path.exists("struck") else 1.0


def one(x, number):
    if not totals:
        totals.append(tf.Variable(tf.zeros(3), trainable=False, **own))
    replica = tf.distribute.get_replica_context()
    second = tf.cast(replica.replica_id_in_sync_group, tf.float32)
    if "twice" in sys.argv:
        v.assign_add(tf.where(number == 4, replica.all_reduce("SUM", tf.reduce_mean(x, 0)), tf.zeros(3)))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum((tf.linalg.matvec(x, w) - 1.0) ** 2) / 32
    gradient = tape.gradient(loss, w)
    if "forgets" in sys.argv:
        gradient *= tf.where((number > 8) & (number < 16), 1.0 - second, 1.0)
    if "clips" in sys.argv:
        gradient = tf.clip_by_norm(gradient, 0.1)
    if "scaled" in sys.argv:  # as a mean over its own rows would
        gradient *= tf.cast(8 / tf.shape(x)[0], tf.float32)
    if "first" in sys.argv:
        gradient = (1.0 - second) * tf.reduce_sum(w) * tf.ones(3)
    totals[0].assign_add(gradient * tf.where(number == 4, 1.0 + second * (struck - 1.0), 1.0))


def apply():
    w.assign_sub(0.5 * tf.distribute.get_replica_context().all_reduce("SUM", totals[0].read_value()))
    totals[0].assign(tf.zeros(3))


@tf.function
def step(x, number, applies):
    strategy.run(one, args=(x, number))
    if applies:
        strategy.run(apply)


@tf.function
def apply_all():
    strategy.run(apply)


rows = np.random.default_rng(1).normal(size=(8 * 16, 3)).astype("f4")
data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(rows).batch(8))
for number, x in enumerate(data, 1):
    step(x, tf.constant(number), False if "late" in sys.argv else tf.constant(number % 8 == 0))
    if number % 3 == 0 and "late" in sys.argv:
        apply_all()
"""


def _judged(*args: str, wrong: bool = False) -> list[dict[str, Any]]:
    Path("train.py").write_text(_SCRIPT)
    watch = (sys.executable, "-m", "harness.watch", "--every", "4", "--out", "left", "train.py", *args)
    subprocess.run(watch, check=True, timeout=300)
    Path("struck").unlink(missing_ok=True)
    said = lockstep("judge", "left", "--json", code=1 if wrong else 0).stdout
    return list(map(json.loads, said.splitlines()))


def _outcomes(steps: list[dict[str, Any]]) -> dict[int, str]:
    return {step["step"]: step["outcome"] for step in steps}


def _told(steps: list[dict[str, Any]]) -> set[tuple[str, str | None]]:
    """Of all findings the laws, and the replicas whose fault they are."""
    return {(each["law"], each.get("replica")) for step in steps for each in step.get("findings", ())}


_RIGHT = dict.fromkeys((1, 4, 8, 12, 16), "consistent")
"""Steps 8 and 16 apply what they begin with."""


@pytest.mark.full
@pytest.mark.parametrize("how", ["SUM", "NONE", "ONLY_FIRST_REPLICA", "MEAN"])
def test_a_sum_of_gradients_accuses_nobody(how: str, here: Path) -> None:
    """Whatever the program says of it; that a sum is a mean is no mistake where each replica reads its own."""
    assert _outcomes(_judged(how)) == _RIGHT


@pytest.mark.full
def test_what_a_function_makes_and_another_applies_accuses_nobody(here: Path) -> None:
    """A step is left as its call ends, and not when the other function has changed what is trained."""
    assert _outcomes(_judged("late")) == _RIGHT | {1: "abstained"}


@pytest.mark.full
@pytest.mark.parametrize("which", ["clips", "first"])
def test_what_each_replica_computes_otherwise_than_one_device_accuses_nobody(which: str, here: Path) -> None:
    """Clipped by each before it is added up, or kept by the first alone, which one device is.

    What is trained by clipped ones is not what one device would train, as far as one could begin with what they were.
    """
    assert _outcomes(_judged(which)) == _RIGHT | ({8: "abstained", 16: "abstained"} if which == "clips" else {})


@pytest.mark.full
def test_a_sum_that_is_not_that_of_one_device_is_told(here: Path) -> None:
    """Nobody knows whether it is meant, as where each replica counts its steps. Here its rows are half of a batch."""
    steps = _judged("scaled")
    assert _outcomes(steps) == _RIGHT | {8: "abstained", 16: "abstained"}
    told = {step["step"]: step.get("own", "") for step in steps}
    assert {number for number, own in told.items() if "which may be meant" in own} == {1, 4, 12}


@pytest.mark.full
@pytest.mark.parametrize("how", ["SUM", "NONE"])
def test_a_mistake_of_one_replica_shows_where_it_has_what_another_had(how: str, here: Path) -> None:
    """After step 8 the second forgets what it should add; as many replicas repeat it."""
    steps = _judged("forgets", how, wrong=True)
    assert _outcomes(steps) == _RIGHT | {12: "inconsistent"}
    assert _told(steps) == {("own_state", None)}


@pytest.mark.full
def test_a_mistake_that_no_state_of_its_own_explains_is_found_beside_it(here: Path) -> None:
    """As many replicas repeat it. What one device begins with does not matter to it."""
    steps = _judged("twice", wrong=True)
    assert _outcomes(steps) == _RIGHT | {4: "inconsistent"}
    assert {law for law, _ in _told(steps)} == {"variables_match_reference"}


@pytest.mark.full
def test_what_one_replica_alone_did_wrong_is_its_own(here: Path) -> None:
    """The run had a fault that the judge has not: its second replica added twice as much."""
    Path("struck").touch()
    steps = _judged(wrong=True)
    assert _outcomes(steps) == _RIGHT | {4: "inconsistent"}
    assert _told(steps) == {("own_state", "local:0 replica 1")}


@pytest.mark.full
def test_what_no_replicas_here_can_make_again_is_said_to_be_open(here: Path) -> None:
    """One device judges the steps, and says of what each replica keeps for itself why nobody knows."""
    Path("train.py").write_text(_SCRIPT)
    watch = (sys.executable, "-m", "harness.watch", "--every", "4", "--out", "left", "train.py")
    subprocess.run(watch, check=True, timeout=300)
    Path("alone").touch()
    told = lockstep("judge", "left")
    assert "judge: steps 1, 4, 8, 12 and 16, what each replica keeps for itself ..." in told.stderr
    assert "step 12: not judged: what each replica keeps for itself: the script fails" in told.stdout
    assert "5 steps: 5 consistent" in told.stdout
    assert "this machine has room for one" in told.stdout


def _seen(*copies: float, how: str = "sum") -> SeenVariable:
    import numpy as np

    return SeenVariable("total", how, tuple(Array.of(np.array([each], np.float32)) for each in copies))


def test_copies_of_all_tasks_are_in_the_order_of_replicas() -> None:
    """Each variable has a name of its own, though several are called the same."""
    first, second = joined([[_seen(1.0, 2.0), _seen(3.0, 4.0)], [_seen(5.0, 6.0), _seen(7.0, 8.0)]])
    assert [each.copies[0].numpy()[0] for each in first.each] == [1.0, 2.0, 5.0, 6.0]
    assert [each.copies[0].numpy()[0] for each in first.turned(2).each] == [5.0, 6.0, 1.0, 2.0]
    assert [each.name for each in second.each][:2] == ["total#2 of replica 0", "total#2 of replica 1"]


@pytest.mark.parametrize(
    ("how", "expected"),
    [("sum", {"sum": 6.0}), ("mean", {"mean": 3.0}), ("own", {"sum": 6.0, "mean": 3.0, "first": 2.0})],
)
def test_what_copies_are_together_is_what_the_program_says(how: str, expected: dict[Way, float]) -> None:
    """Where it says nothing, it may be any of these."""
    (state,) = joined([[_seen(2.0, 4.0, how=how)]])
    ways: tuple[Way, ...] = ("sum", "mean", "first")
    found = {way: each.copies[0].numpy()[0] for way in ways for each in state.all(way)}
    assert found == expected


@pytest.mark.parametrize(
    ("how", "differing", "found"),
    [
        ("own", {"each"}, [(3, "local:0 replica 1")]),
        ("own", {"each", "turned", "sum", "mean", "first"}, [(3, "local:0 replica 1")]),
        ("own", {"turned", "sum", "mean", "first"}, [(3, None)]),
        ("own", {"turned", "sum", "mean"}, []),
        ("own", {"sum", "mean", "first"}, []),
        ("sum", {"turned", "sum"}, [(3, None)]),
        ("sum", {"turned"}, []),
        ("sum", {"sum"}, []),
        ("sum", {"mean"}, []),
    ],
)
def test_a_mistake_of_the_program_has_to_show_in_each_way(
    how: str, differing: set[str], found: list[tuple[int, str | None]]
) -> None:
    """It is one where replicas that are turned differ, and one device has in no way what they have together.

    That one device has something else, in the way that the program says, is told where nothing is found.
    """

    def compared(*, turned: bool = False, way: Way | None = None) -> Iterator[tuple[int, Finding]]:
        if (way or ("turned" if turned else "each")) in differing:
            yield 3, Finding("variables_match_reference", "", variable="w")
            name = "total of all replicas" if way else "total of replica 1"
            yield 3, Finding("variables_match_reference", "", variable=name, observed=6.0, expected=3.0)

    states = {3: joined([[_seen(1.0, 2.0, how=how)]])}
    told, apart = judge_own_state(states, ["local:0 replica 0", "local:0 replica 1"], compared)
    every = [(place, each) for place, findings in told.items() for each in findings]
    assert [(place, each.replica) for place, each in every] == found
    assert {(each.law, each.variable) for _, each in every} <= {("own_state", "total")}
    said = "total is together other than what one device has, which may be meant: it is 6, and not 3"
    assert apart == ({3: said} if (how, differing) == ("sum", {"sum"}) else {})
    if found in ([(3, None)], []):
        assert judge_own_state(states, ["0", "1"], compared, by_hand=[3]) == ({}, {})
