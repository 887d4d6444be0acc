"""A value that is cast to a coarse dtype for the report only is judged by what computed it."""

from __future__ import annotations

from typing import Any

import pytest

from harness import verify


def _train(strategy: Any, record: Any) -> None:
    """Losses of 4096 examples in float32, reported as bfloat16: one as it is, one 5 % too large with two replicas."""
    import numpy as np
    import tensorflow as tf

    data = np.random.default_rng(0).normal(size=(3, 4096)).astype("float32")
    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(data.ravel()).batch(4096))
    with strategy.scope():
        w = tf.Variable([0.5], aggregation=tf.VariableAggregation.SUM)

    @tf.function
    def step(batch: Any) -> Any:
        def replica_step(x: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.nn.compute_average_loss((w - x) ** 2, global_batch_size=4096)
            w.assign_sub(0.1 * tape.gradient(loss, w))
            return loss

        return strategy.reduce("SUM", strategy.run(replica_step, args=(batch,)), axis=None)

    for batch in dataset:
        loss = step(batch)
        wrong = loss * (1.05 if strategy.num_replicas_in_sync > 1 else 1.0)
        record.step(variables=[w], metrics={name: tf.cast(x, tf.bfloat16) for name, x in (("a", loss), ("b", wrong))})


@pytest.mark.full  # tests/harness/test_tolerance.py has the same without TensorFlow
def test_a_loss_5_percent_wrong_is_found_in_bfloat16() -> None:
    """The cast is no licence for eight roundings of bfloat16, and a right loss that was cast is within its bound."""
    verdict = verify(_train, "mirrored-2")
    broken = {finding.variable for finding in verdict.findings}
    assert broken == {"b"}, str(verdict)
