"""Scripts that round gradients to 16 bits before they are added up, to send less, or behind the scale of a loss."""

from __future__ import annotations

import pytest

from tests.harness._loop import Verified

_SCRIPT = """
import numpy as np
import tensorflow as tf

SENT = "sent" == "scaled"
KIND = tf.float16
strategy = tf.distribute.MirroredStrategy()
rows = np.random.default_rng(0).normal(size=(64, 6)).astype("float32")
with strategy.scope():
    w = tf.Variable(np.linspace(-0.5, 0.5, 6), dtype=tf.float32)


def one(x):
    replica = tf.distribute.get_replica_context()
    with tf.GradientTape() as tape:
        errors = (tf.linalg.matvec(x, w) - 1.0) ** 2
        loss = 1024.0 * tf.nn.compute_average_loss(errors, global_batch_size=16)
    gradient = tf.cast(tape.gradient(loss, w), KIND)
    if SENT:
        gradient = tf.cast(replica.all_reduce("SUM", gradient), tf.float32) / 1024.0
    else:
        gradient = replica.all_reduce("SUM", tf.cast(gradient, tf.float32) / 1024.0)
    w.assign_sub(0.05 * gradient)


step = tf.function(lambda x: strategy.run(one, args=(x,)))
for x in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(rows).batch(16)):
    step(x)
"""


@pytest.mark.full  # test_noise.py has what is moved
@pytest.mark.parametrize("strategy", ["mirrored-2", "multi_worker-2"])
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("sent", [True, False])
def test_what_each_replica_rounds_accuses_nobody(verified: Verified, strategy: str, kind: str, sent: bool) -> None:
    """And a mean in place of the sum is found."""
    right = _SCRIPT.replace('"scaled"', '"sent"' if sent else '"scaled"').replace("tf.float16", f"tf.{kind}")
    if strategy == "multi_worker-2":
        right = right.replace("MirroredStrategy", "MultiWorkerMirroredStrategy")
    verdict = verified(right, strategy, explain=False, prove=False)
    assert verdict.outcome == "consistent", str(verdict)
    wrong = verified(right.replace('"SUM"', '"MEAN"'), strategy, explain=False, prove=False)
    assert wrong.outcome == "inconsistent", str(wrong)
