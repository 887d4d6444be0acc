"""Programs that keep a share of what one device keeps, and make up for that: they are not accused."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from harness import verify
from harness.evidence.observed import Observed
from harness.judging import left_alone


def counted(strategy: Any, record: Any, *, times: bool = True) -> None:
    """Rows are counted by a variable that averages, and the rate follows from their number, times the replicas."""
    import tensorflow as tf

    with strategy.scope():
        weight = tf.Variable(2.0, name="weight", aggregation=tf.VariableAggregation.SUM)
        seen = tf.Variable(0.0, name="seen", trainable=False, aggregation=tf.VariableAggregation.MEAN)

    def replica(examples: Any) -> None:
        seen.assign_add(tf.cast(tf.shape(examples)[0], tf.float32))
        rows = seen * (tf.distribute.get_replica_context().num_replicas_in_sync if times else 1)
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(examples * weight**2, global_batch_size=4)
        weight.assign_sub(0.2 / rows * tape.gradient(loss, weight))

    step = tf.function(lambda examples: strategy.run(replica, args=(examples,)))
    data = tf.data.Dataset.range(1, 17).map(lambda number: tf.cast(number, tf.float32)).batch(4)
    for examples in strategy.experimental_distribute_dataset(data):
        step(examples)
        record.step(variables=[weight])


@pytest.mark.full
@pytest.mark.parametrize(("times", "outcome"), [(True, "abstained"), (False, "inconsistent")])
def test_a_share_that_is_made_up_for_is_no_mistake(times: bool, outcome: str) -> None:
    """Left alone, one device trains the same; where nothing makes up for the share, it does not."""
    verdict = verify(functools.partial(counted, times=times), "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)
    if outcome == "abstained":
        assert "'seen'" in str(verdict.why_abstained)


def _of(*numbers: complex) -> Observed:
    array = np.asarray(numbers)
    return Observed("complex64" if array.dtype.kind == "c" else "float32", array)


@pytest.mark.parametrize(
    ("following", "alone", "run", "good", "share"),
    [
        ((1.0, 2.0), (1.5, 3.0), (1.5, 3.0), True, False),
        ((1.0, 2.0), (1.5, 3.0), (1.51, 3.0), True, False),
        ((1.0, 2.0), (1.0, 2.0), (1.01, 2.0), False, False),  # a small mistake is there in both
        ((4.0, 8.0), (4.0, 8.0), (2.0, 4.0), False, True),
        ((4.0, 8.0), (4.0, 8.0), (2.0, 8.0), False, False),
        ((0.0, 0.0), (0.0, 0.0), (0.0, 1.0), False, False),
        ((1j,), (2j,), (2j,), True, False),
    ],
)
def test_what_is_as_good_as_left_alone(following: Any, alone: Any, run: Any, good: bool, share: bool) -> None:
    """Only what differs by a small part of what it is accused of; a share is that of all elements."""
    assert left_alone._is_as_good(_of(*following), _of(*alone), _of(*run)) is good
    assert left_alone._is_share(_of(*alone), _of(*run), 2) is share
