"""What a restart does not bring back has the line that restores, or that gives it another value afterwards."""

from __future__ import annotations

import pytest

from harness import verify
from harness.evidence.assignments import Assignment
from harness.evidence.counters import Counters
from harness.evidence.trace import ClientTrace, Header, RunTrace
from harness.judging.explain.protocol import Explanation
from harness.judging.explain.slots_not_restored import SLOTS_NOT_RESTORED
from harness.judging.laws.protocol import Finding, Judgement
from harness.judging.restore_lines import line_that_restores
from harness.judging.set_between_steps import set_between_steps
from harness.judging.verdict import Verdict
from tests._present import present
from tests.harness._loop import Verified
from tests.harness._resumable import training

_BEGINS = Finding("begins_alike", "it differs", step=7, observable="start", variable="rate")


def _judged(rule: str | None) -> Verdict:
    why = None if rule is None else Explanation(rule, "The slots are empty.")
    return Verdict(
        "train.py", "mirrored-2", (Judgement("begins_alike", "broken", findings=(_BEGINS,)),), explanation=why
    )


def _resumed(*restored: str, assigned: tuple[Assignment, ...] = ()) -> RunTrace:
    counters = Counters(restored=restored, assigned=assigned)
    return RunTrace((ClientTrace(Header("local:0", 1, "mirrored-2", 2, 2, 1, 0, {}), counters=counters),))


@pytest.mark.parametrize(
    ("restored", "rule", "line"),
    [
        (("train.py:9",), SLOTS_NOT_RESTORED, "train.py:9"),
        (("train.py:9",), "loss_times_replicas", None),
        (("train.py:9",), None, None),
        (("train.py:9", "train.py:12"), SLOTS_NOT_RESTORED, None),  # one of two
        ((), SLOTS_NOT_RESTORED, None),
    ],
)
def test_the_line_that_restores(restored: tuple[str, ...], rule: str | None, line: str | None) -> None:
    """It is to blame where an explanation says that something did not come back."""
    found = line_that_restores(_judged(rule), _resumed(*restored))
    assert (found and (found.where, found.relation)) == (line and (line, "The slots are empty"))


@pytest.mark.parametrize(("after", "line"), [(0, "train.py:12"), (1, None)])
def test_what_is_assigned_after_a_restore_is_what_the_part_begins_with(after: int, line: str | None) -> None:
    """Steps of a part count from its own begin."""
    assigned = (Assignment("rate", "train.py:12", after, after),)
    run = _resumed(assigned=assigned)
    found = set_between_steps(_judged(None), run, run, resumed=True)
    assert (found and found.where) == line


@pytest.mark.full
@pytest.mark.parametrize(
    ("mistake", "line"),
    [("slots", "checkpoint.restore("), ("older", "checkpoint.restore("), ("data", "batches = iter(")],
)
def test_a_restart_that_loses_something_has_its_line(mistake: str, line: str) -> None:
    """The right one has none."""
    wrong = verify(training(mistake), "mirrored-2", interrupt_at=5, explain=True, prove=False)
    assert present(wrong.culprit).source.startswith(line), str(wrong)
    right = verify(training(), "mirrored-2", interrupt_at=5, prove=False)
    assert right.consistent, str(right)
    assert right.culprit is None


_RATE = """
import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
x = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")
with strategy.scope():
    w = tf.Variable(tf.zeros(3), name="w")
    step = tf.Variable(0, dtype=tf.int64, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build([w])
optimizer.learning_rate.assign(0.2)
manager = tf.train.CheckpointManager(tf.train.Checkpoint(w=w, step=step, optimizer=optimizer), "saved", max_to_keep=2)
manager.restore_or_initialize()
optimizer.learning_rate.assign(0.2)  # again

@tf.function
def train(batch):
    def replica(batch):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.linalg.matvec(batch, w) - 1) ** 2) / 8
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
    strategy.run(replica, args=(batch,))

data = tf.data.Dataset.from_tensor_slices(x).batch(8).skip(int(step.numpy()))
for batch in strategy.experimental_distribute_dataset(data):
    train(batch)
    optimizer.learning_rate.assign(optimizer.learning_rate * 0.9)
    step.assign_add(1)
    manager.save()
"""


@pytest.mark.full
def test_a_rate_that_is_set_after_a_restore_has_that_line(verified: Verified) -> None:
    """And not the line before it, whose value the restore has replaced."""
    wrong = verified(_RATE, "mirrored-2", explain=True, prove=False, interrupt_at=4)
    assert present(wrong.culprit).source.endswith("# again"), str(wrong)
    right = verified(_RATE.replace("optimizer.learning_rate.assign(0.2)  # again", ""), "mirrored-2", interrupt_at=4)
    assert right.consistent, str(right)
