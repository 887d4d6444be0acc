"""Unmodified scripts that give each replica its rows by the number of the replica."""

from __future__ import annotations

import pytest

from tests.harness._loop import Verified

_BY_NUMBER = """
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
rows = tf.random.stateless_normal([64, 3], (1, 2))
with strategy.scope():
    w = tf.Variable(tf.zeros([3]))

def train(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum((tf.linalg.matvec(x, w) - 1.0) ** 2) / (8 * strategy.num_replicas_in_sync)
    w.assign_sub(0.1 * tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, w)))

def given(context):
    first = (number * context.num_replicas_in_sync + context.replica_id_in_sync_group) * 8
    return rows[first : first + 8]

for number in range(4):
    strategy.run(train, args=(strategy.experimental_distribute_values_from_function(given),))
"""


@pytest.mark.full
@pytest.mark.parametrize(("mistake", "outcome"), [("", "consistent"), ("sum", "abstained"), ("mean", "inconsistent")])
def test_rows_that_each_replica_is_given_by_its_number_are_one_batch(
    mistake: str, outcome: str, verified: Verified
) -> None:
    """One replica is given those of all; a constant of one replica's batch may be meant, as elsewhere."""
    loss = "tf.reduce_sum((tf.linalg.matvec(x, w) - 1.0) ** 2) / (8 * strategy.num_replicas_in_sync)"
    becomes = {"": loss, "sum": loss.replace("(8 * strategy.num_replicas_in_sync)", "8")}
    mean = "tf.reduce_mean((tf.linalg.matvec(x, w) - 1.0) ** 2)"
    verdict = verified(_BY_NUMBER.replace(loss, becomes.get(mistake, mean)), "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)
