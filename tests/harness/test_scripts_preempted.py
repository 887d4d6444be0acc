"""Scripts whose `PreemptionCheckpointHandler` saves before a machine is taken away."""

from __future__ import annotations

from typing import Any

import pytest

from simulator import FaultPlan
from simulator.faults import Preempt
from tests._present import present
from tests.harness._loop import Verified

_SCRIPT = """
import sys
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    w = tf.Variable(tf.zeros([2, 1]), name="w")
leaving = tf.distribute.experimental.TerminationConfig(exit_fn=lambda: sys.exit(42))
handler = tf.distribute.experimental.PreemptionCheckpointHandler(
    strategy.cluster_resolver, tf.train.Checkpoint(w=w), "saved", leaving
)
data = tf.data.Dataset.range(80).map(lambda k: tf.cast(tf.stack([k, k + 1]), tf.float32) / 100).batch(8)
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
data = data.skip(handler.total_run_calls).with_options(options)

def replica_step(batch):
    with tf.GradientTape() as tape:
        loss = tf.nn.compute_average_loss(tf.square(batch @ w - 1)[:, 0], global_batch_size=8)
    w.assign_sub(0.1 * tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, w)))

@tf.function
def step(batch):
    strategy.run(replica_step, args=(batch,))

for batch in strategy.experimental_distribute_dataset(data):
    handler.run(step, batch)
"""


@pytest.mark.full
@pytest.mark.parametrize("rule", ["", "data_restarted"])
def test_a_script_that_is_preempted_goes_on_where_it_was(rule: str, verified: Verified) -> None:
    """On one device the handler has nobody to ask; its count of steps is none of the script's variables."""
    script = _SCRIPT.replace(".skip(handler.total_run_calls)", "") if rule else _SCRIPT
    fault: Any = Preempt(task="worker:1", step=4, grace="20s", restart="1s")
    verdict = verified(script, "multi_worker-2", faults=FaultPlan(faults=(fault,)), restarts=2, explain=bool(rule))
    assert verdict.outcome == ("inconsistent" if rule else "consistent"), str(verdict)
    if rule:
        assert present(verdict.explanation).rule == rule
