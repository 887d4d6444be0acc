"""What replicas add to variables of 16 bits is moved by what putting it together loses; no right sum is accused."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from harness import verify


def _train(strategy: Any, record: Any, *, on_read: bool, factor: float) -> None:
    """Gradients of four batches are added up in bfloat16, and then move variables of float32."""
    import numpy as np
    import tensorflow as tf

    random = np.random.default_rng(6)
    x, y = random.normal(size=(24 * 8, 12)).astype(np.float32), random.integers(0, 10, 24 * 8)
    how = {"synchronization": tf.VariableSynchronization.ON_READ} if on_read else {}
    with strategy.scope():
        w = tf.constant(random.normal(size=(12, 10)).astype(np.float32) / 4)
        b = tf.Variable(tf.zeros(10), aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA, name="b")
        total = tf.Variable(
            tf.zeros(10, tf.bfloat16), trainable=False, aggregation=tf.VariableAggregation.SUM, name="s", **how
        )

    def replica_step(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(y, x @ w + b)) / 96
        several = strategy.num_replicas_in_sync > 1
        total.assign_add(tf.cast((factor if several else 1.0) * tape.gradient(loss, b), tf.bfloat16))

    step = tf.function(lambda x, y: strategy.run(replica_step, (x, y)))
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(24)
    for number, batch in enumerate(strategy.experimental_distribute_dataset(data)):
        step(*batch)
        if number % 4 == 3:
            b.assign_sub(0.2 * tf.cast(total.read_value(), tf.float32))
            total.assign(tf.zeros(10, tf.bfloat16))
        record.step(variables=[b, total])


@pytest.mark.full
@pytest.mark.parametrize("on_read", [False, True])
@pytest.mark.parametrize(("factor", "outcome"), [(1.0, "consistent"), (1.5, "inconsistent")])
def test_a_sum_in_16_bits_over_replicas_is_judged(factor: float, outcome: str, on_read: bool) -> None:
    """Parts that nearly cancel lose more than what they add up to; a factor is found nevertheless."""
    verdict = verify(partial(_train, on_read=on_read, factor=factor), "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)
