"""A variable that is wrong before a step has the line that assigned it, if one line may have done it."""

from __future__ import annotations

import pytest

from harness.evidence.assignments import Assignment
from harness.evidence.counters import Counters
from harness.evidence.trace import ClientTrace, Header, RunTrace
from harness.judging.explain.protocol import Explanation
from harness.judging.explain.set_by_each_worker import SET_BY_EACH
from harness.judging.laws.protocol import Finding, Judgement
from harness.judging.set_between_steps import set_between_steps
from harness.judging.verdict import Verdict
from tests.harness._loop import Verified

_EACH = Explanation(SET_BY_EACH, "")


def _line(
    observable: str,
    *assigned: tuple[Assignment, ...],
    rule: Explanation | None = None,
    laws: tuple[str, ...] = ("replicas_agree",),
    alone: tuple[Assignment, ...] = (),
) -> str | None:
    """The line of what is wrong with `rate` at step 6, of workers that have assigned such between steps."""
    clients = [
        ClientTrace(
            Header(f"worker:{number}", 0, "multi_worker-2", 2, 1, len(assigned), 0, {}),
            counters=Counters(assigned=each),
        )
        for number, each in enumerate(assigned)
    ]
    findings = (Finding(law, "it differs", step=6, observable=observable, variable="rate") for law in laws)
    broken = tuple(Judgement(each.law, "broken", findings=(each,)) for each in findings)
    verdict = Verdict("train.py", "multi_worker-2", broken, explanation=rule)
    reference = ClientTrace(Header("local:0", 0, "default", 1, 1, 1, 0, {}), counters=Counters(assigned=alone))
    found = set_between_steps(verdict, RunTrace(tuple(clients)), RunTrace((reference,)))
    return None if found is None else found.where


def _at(line: int, first: int, last: int, variable: str = "rate") -> tuple[Assignment, ...]:
    return (Assignment(variable, f"train.py:{line}", first, last),)


@pytest.mark.parametrize(
    ("assigned", "rule", "line"),
    [
        ((_at(9, 6, 6), ()), None, "train.py:9"),  # one worker's callback
        ((_at(9, 2, 10), _at(9, 8, 8)), None, "train.py:9"),  # the other one does so later
        ((_at(9, 6, 6), _at(9, 6, 6)), _EACH, "train.py:9"),
        ((_at(9, 6, 6), _at(9, 6, 6)), None, None),  # the step may have made it wrong
        ((_at(9, 7, 9), ()), None, None),  # after what is wrong
        ((_at(9, 0, 5), ()), None, None),
        ((_at(9, 6, 6, "w"), ()), None, None),
        ((_at(9, 6, 6) + _at(12, 6, 6), ()), None, None),  # one of two
    ],
)
def test_what_one_worker_assigns_has_its_line(
    assigned: tuple[tuple[Assignment, ...], ...], rule: Explanation | None, line: str | None
) -> None:
    """Unless what all assign may be right, and the step wrong before it."""
    assert _line("variables", *assigned, rule=rule) == line
    of_one_device = "variables_match_reference"
    assert _line("variables", *assigned, rule=rule, laws=(of_one_device, "replicas_agree")) == line
    both = assigned[0] + assigned[1]
    assert _line("variables", *assigned, rule=rule, laws=(of_one_device,), alone=both) is None


@pytest.mark.parametrize(
    ("run", "alone", "line"),
    [
        (_at(9, 6, 6), (), "train.py:9"),
        ((), _at(9, 2, 7), "train.py:9"),  # one device alone, by what it has been given back
        (_at(9, 6, 6), _at(9, 6, 6), None),
        ((), _at(9, 7, 9), None),
        ((), (), None),
    ],
)
def test_what_only_one_side_assigns_has_its_line(
    run: tuple[Assignment, ...], alone: tuple[Assignment, ...], line: str | None
) -> None:
    """A callback may decide by what the run has otherwise, and give a rate to one of them."""
    assert _line("variables", run, alone=alone, laws=("variables_match_reference",)) == line


@pytest.mark.parametrize(("after", "line"), [(5, "train.py:9"), (6, None)])
def test_what_a_step_begins_with_was_assigned_before_it(after: int, line: str | None) -> None:
    """Not after it, where an assignment is too late for that."""
    assert _line("start", _at(9, after, after), laws=("begins_alike",)) == line


_NAMED = """
import json
import os
import keras
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
first = json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0
with strategy.scope():
    other = tf.Variable(1.0, trainable=False, name="other")
    w = tf.Variable(tf.zeros(3), name="w")
    rate = tf.Variable(0.1, trainable=False, name="rate")

@tf.function
def step(batch):
    def replica(batch):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.linalg.matvec(batch, w) - 1) ** 2) / 8
        gradient = tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, w))
        w.assign_sub(rate * gradient)
    strategy.run(replica, args=(batch,))

data = tf.data.Dataset.from_tensor_slices(tf.reshape(tf.range(96.0), [32, 3]) / 96).batch(8)
for number, batch in enumerate(strategy.experimental_distribute_dataset(data)):
    step(batch)
    other.assign(2.0)
    if number == 1 and first:
        rate.assign(0.05)  # by one
"""


@pytest.mark.full
@pytest.mark.parametrize("name", ["other", "rate"])
def test_a_variable_that_shares_its_name_has_no_line(name: str, verified: Verified) -> None:
    """Nobody knows which of the two was assigned."""
    script = _NAMED.replace('name="other"', f'name="{name}"')
    verdict = verified(script, "multi_worker-2", explain=True, prove=False)
    assert verdict.outcome == "inconsistent", str(verdict)
    source = None if verdict.culprit is None else verdict.culprit.source
    assert source == ("rate.assign(0.05)  # by one" if name == "other" else None), str(verdict)
