"""Programs that train without a gradient of a variable: what their replicas assign is a step, and judged."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from harness import verify
from tests.harness._loop import LOOP, Verified


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


_FIRST = """
first = next(iter(strategy.experimental_distribute_dataset(dataset)))
strategy.run(lambda x, y: w.assign({}), args=first)
"""
_MEAN, _EXTREME = "tf.reduce_mean(x, axis=0)", "tf.reduce_max(x, axis=0)"


@pytest.mark.full
@pytest.mark.parametrize(("value", "outcome"), [(_MEAN, "consistent"), (_EXTREME, "inconsistent")])
def test_what_replicas_set_before_they_train_is_a_step(value: str, outcome: str, verified: Verified) -> None:
    """As layers do that are initialized by the first batch; each replica has but its own part of that."""
    loop = LOOP.replace("for _ in range(int(sys.argv[1])):", f"{_FIRST.format(value)}for _ in range(1):")
    loop = loop.replace('name="w")', 'name="w", aggregation=tf.VariableAggregation.MEAN)')
    verdict = verified(loop, "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)
    assert not verdict.conditions
    compared = {law.law: law.compared for law in verdict.judgements}
    assert compared["examples_match_reference"] == 1 + 3  # the first batch, and the three of the epoch
    if outcome == "inconsistent":
        assert verdict.first_divergence is not None
        assert verdict.first_divergence.step == 1


@pytest.mark.parametrize(("reduction", "outcome"), [("SUM", "consistent"), ("MEAN", "inconsistent")])
def test_gradients_that_a_program_computes_itself_make_steps(reduction: str, outcome: str, verified: Verified) -> None:
    """No tape is asked for anything, as where gradients of examples are clipped one by one."""
    tape = LOOP[LOOP.index("    with tf.GradientTape()") : LOOP.index("    w.assign_sub")]
    loop = LOOP.replace(
        tape,
        "    errors = tf.linalg.matvec(x, w) - y\n"
        "    loss = tf.reduce_sum(errors ** 2) / BATCH\n"
        "    gradient = tf.reduce_sum(tf.clip_by_norm(2 * errors[:, None] * x, 1.0, axes=[1]), axis=0) / BATCH\n",
    ).replace('all_reduce("sum"', f'all_reduce("{reduction}"')
    loop = loop.replace("int(sys.argv[1])", "1")
    verdict = verified(loop, "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)
