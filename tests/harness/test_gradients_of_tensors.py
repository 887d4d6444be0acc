"""Programs that ask a tape for gradients of copies and rows of variables, and never of a variable."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from harness import verify


def of_a_copy(strategy: Any, record: Any, *, wrong: bool = False, adversarial: bool = False) -> None:
    """A weight is trained by gradients of its copy in 16 bits, and reported nowhere.

    A wrong one averages over what each replica has; an adversarial one first takes gradients of examples.
    """
    import numpy as np
    import tensorflow as tf

    x = np.random.default_rng(0).normal(size=(32, 20)).astype("float32")
    with strategy.scope():
        weight = tf.Variable(tf.zeros([20, 50]), name="weight", aggregation=tf.VariableAggregation.MEAN)
        other = tf.Variable(tf.zeros([20, 50]), name="other", aggregation=tf.VariableAggregation.MEAN)

    def losses(examples: Any, copy: Any) -> Any:
        return tf.reduce_sum((tf.cast(tf.cast(examples, copy.dtype) @ copy, tf.float32) - 1) ** 2, axis=1)

    def replica(examples: Any) -> None:
        with tf.GradientTape() as tape:
            copy = tf.cast(weight, tf.bfloat16)
            each = losses(examples, copy)
            loss = tf.reduce_mean(each) if wrong else tf.nn.compute_average_loss(each, global_batch_size=8)
        gradient = tf.cast(tape.gradient(loss, copy), tf.float32)
        weight.assign_sub(0.001 * tf.distribute.get_replica_context().all_reduce("SUM", gradient))

    def attack(examples: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(examples)
            loss = tf.reduce_sum(losses(examples, tf.convert_to_tensor(other)))
        return examples + 0.1 * tf.sign(tape.gradient(loss, examples))

    step = tf.function(lambda examples: strategy.run(replica, args=(examples,)))
    attacked = tf.function(lambda examples: strategy.run(attack, args=(examples,)))
    for examples in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(8)):
        step(attacked(examples) if adversarial else examples)


@pytest.mark.full
@pytest.mark.parametrize(
    ("told", "outcome"),
    [
        ({}, "consistent"),
        ({"wrong": True}, "inconsistent"),
        ({"adversarial": True}, "consistent"),
        ({"adversarial": True, "wrong": True}, "inconsistent"),
    ],
)
def test_a_call_that_assigns_after_gradients_is_a_step(told: dict[str, bool], outcome: str) -> None:
    """It is judged; one that takes gradients of its examples, and assigns nothing, is none."""
    verdict = verify(functools.partial(of_a_copy, **told), "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)
    compared = {law.law: law.compared for law in verdict.judgements}
    # Two variables, in the steps of 32 examples in batches of 8.
    assert compared["variables_match_reference"] == 2 * 4
