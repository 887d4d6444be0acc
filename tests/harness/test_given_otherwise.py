"""The line of a call that gives a step another number than one device does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness.evidence.trace import ArgumentSeen, Array, ClientTrace, Header, RunTrace, Seen
from harness.judging.culprit.kinds import GIVEN
from harness.judging.given_otherwise import given_otherwise
from harness.judging.laws.protocol import Finding, Judgement
from harness.judging.verdict import Verdict
from harness.recording.witness.calls import _given_by_run
from tests._present import present
from tests.harness._loop import Verified


def _client(steps: list[dict[str, Any]], task: str = "worker:0") -> ClientTrace:
    header = Header(task, 0, "multi_worker-2", 2, 1, 2, 20, {})
    seen = tuple(
        Seen(
            index,
            float(index),
            arguments=tuple(
                ArgumentSeen(name, f"train.py:{place}", Array.of(np.asarray(value)))
                for place, (name, value) in enumerate(given.items(), start=7)
            ),
        )
        for index, given in enumerate(steps, start=1)
    )
    return ClientTrace(header, seen=seen)


def _verdict(step: int, observable: str = "variables") -> Verdict:
    finding = Finding("variables_match_reference", "", None, step, observable, "w")
    return Verdict("train.py", "multi_worker-2", (Judgement(finding.law, "broken", findings=(finding,)),))


_TRUTH = [{"rate": 0.5, "seed": [1, 0]}, {"rate": 0.5, "seed": [1, 1]}, {"rate": 0.25, "seed": [1, 2]}]


@pytest.mark.parametrize(
    ("third", "step", "line", "said"),
    [
        ({"rate": 0.5, "seed": [1, 2]}, 3, 7, "rate is 0.5 here on worker:1, and 0.25 on one device"),
        ({"rate": 0.25, "seed": [1, 0]}, 3, 8, "seed[1] is 0 here on worker:1, and 2 on one device"),
        ({"rate": 0.25000001, "seed": [1, 2]}, 3, None, None),  # rounded
        ({"rate": 0.5, "seed": [1, 2]}, 2, None, None),  # what was wrong before
        ({"rate": 0.25, "seed": [1, 2, 3]}, 3, None, None),  # examples of its own
        ({"pace": 0.5}, 3, None, None),
    ],
)
def test_the_number_that_differs_first_is_told(
    third: dict[str, Any], step: int, line: int | None, said: str | None
) -> None:
    """At the first wrong step, of whichever worker has it."""
    run = RunTrace((_client(_TRUTH), _client([*_TRUTH[:2], third], "worker:1")))
    found = given_otherwise(_verdict(step), run, RunTrace((_client(_TRUTH),)))
    assert (found and found.line) == line
    if line is not None:
        assert (present(found).relation, present(found).kind) == (said, GIVEN.code)


def test_a_number_that_has_differed_in_a_right_step_is_not_to_blame() -> None:
    """Such as the time of day."""
    run = RunTrace((_client([{"now": 1.0}, {"now": 2.0}]),))
    truth = RunTrace((_client([{"now": 5.0}, {"now": 6.0}]),))
    assert given_otherwise(_verdict(2), run, truth) is None
    assert given_otherwise(_verdict(1), run, truth) is not None
    assert given_otherwise(_verdict(1, "examples"), run, truth) is None


def test_a_run_that_was_started_again_is_aligned_by_its_end() -> None:
    """Its steps count from one."""
    run = RunTrace((_client([{"rate": 0.5}, {"rate": 0.5}]),))
    truth = RunTrace((_client([{"rate": 0.5}, {"rate": 0.5}, {"rate": 0.25}]),))
    assert given_otherwise(_verdict(2), run, truth) is None
    assert present(given_otherwise(_verdict(3), run, truth)).relation == "rate is 0.5 here, and 0.25 on one device"


@pytest.mark.parametrize(
    ("args", "options"),
    [
        ((len, ("x",), {"y": 1}), {}),
        ((len,), {"args": ["x"], "kwargs": {"y": 1}}),
        ((), {"fn": len, "args": ("x",), "kwargs": {"y": 1}, "options": None}),
    ],
)
def test_what_a_run_gives_is_found_however_it_is_called(args: tuple[Any, ...], options: dict[str, Any]) -> None:
    """By place, or by name."""
    assert _given_by_run(args, options) == (("x",), {"y": 1})
    assert _given_by_run((len,), {}) == ((), {})


_SCRIPT = """
import time
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    w, done = tf.Variable(tf.zeros([2, 1]), name="w"), tf.Variable(0)
saved = tf.train.CheckpointManager(tf.train.Checkpoint(w=w, done=done), "saved", max_to_keep=2)
saved.restore_or_initialize()
data = tf.data.Dataset.range(64).map(lambda k: tf.cast(tf.stack([k, k + 1]), tf.float32) / 100).batch(8)

def replica_step(batch, rate):
    with tf.GradientTape() as tape:
        loss = tf.nn.compute_average_loss(tf.square(batch @ w - 1)[:, 0], global_batch_size=8)
    w.assign_sub(rate * tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, w)))

@tf.function
def step(batch, *, now, rate):
    strategy.run(replica_step, args=(batch, rate))

begun = int(done.numpy())
for batch in strategy.experimental_distribute_dataset(data.skip(begun)):
    number = int(done.numpy())
    step(batch, now=tf.constant(time.time() % 60), rate=tf.constant(0.9 ** number))
    done.assign_add(1)
    saved.save()
"""


@pytest.mark.full
@pytest.mark.parametrize("wrong", [False, True])
def test_a_rate_that_begins_again_after_a_restart(wrong: bool, verified: Verified) -> None:
    """The line is that of the call. The time of day differs in each step, and is none of the step's."""
    script = _SCRIPT.replace("number = int(done.numpy())", "number = int(done.numpy()) - begun") if wrong else _SCRIPT
    verdict = verified(script, "mirrored-2", interrupt_at=5, explain=wrong)
    assert verdict.outcome == ("inconsistent" if wrong else "consistent"), str(verdict)
    if wrong:
        assert present(verdict.culprit).source.startswith("step(batch, now="), str(verdict)
        assert present(verdict.culprit).relation.startswith("rate is 1 here, and 0.")
