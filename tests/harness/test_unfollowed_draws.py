"""Batches that have texts among their parts, and draws by which one device cannot follow."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from harness import Program, attempts, verify
from simulator import RunFailed, RunResult, TaskError


def _dropping(strategy: Any, record: Any, wrong: bool = False, texts: bool = True) -> None:
    """A step with dropout, whose batches have a text for each example."""
    import tensorflow as tf

    features = tf.random.stateless_normal([24, 4], (1, 2))
    names = tf.constant([f"example {number}" for number in range(24)])
    data = {"features": features, "name": names} if texts else {"features": features}
    with strategy.scope():
        w = tf.Variable(tf.ones([4]), aggregation=tf.VariableAggregation.SUM)

    def replica_step(batch: Any) -> Any:
        rows = batch["features"]
        if texts:
            rows *= tf.cast(tf.strings.length(batch["name"]), tf.float32)[:, None] / 10.0
        with tf.GradientTape() as tape:
            losses = tf.reduce_sum(tf.nn.dropout(rows, 0.5) * w, axis=1)
            loss = tf.reduce_mean(losses) if wrong else tf.nn.compute_average_loss(losses, global_batch_size=12)
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    @tf.function
    def step(batch: Any) -> Any:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica_step, (batch,)), axis=None)

    for batch in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(data).batch(12)):
        record.step(loss=step(batch), variables=[w])


def _program(**options: bool) -> Program:
    return Program.of(functools.partial(_dropping, **options))


@pytest.mark.full
@pytest.mark.parametrize("wrong", [False, True])
def test_a_random_training_whose_batches_have_texts_is_judged(wrong: bool) -> None:
    """A row of texts is known by what they are, as one of numbers is."""
    verdict = verify(_program(wrong=wrong), "mirrored-2")
    assert bool(verdict) == (not wrong), str(verdict)
    if wrong:
        assert verdict.explanation is not None
        assert verdict.explanation.rule == "loss_times_replicas"


@pytest.mark.full
@pytest.mark.parametrize("wrong", [False, True])
def test_what_draws_and_cannot_be_followed_is_not_judged(wrong: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One device draws other numbers, so that another loss says nothing of a run."""
    by = attempts.JudgedAttempt.by

    def failing(attempt: Any, venue: Any, tasks: Any, *, follows: bool = True, **parts: Any) -> Any:
        if follows:
            raise RunFailed((TaskError("local:0", "ValueError", "a batch of 12"),), RunResult({}, 0.0, Path()))
        return by(attempt, venue, tasks, follows=False, **parts)

    monkeypatch.setattr(attempts.JudgedAttempt, "by", failing)
    verdict = verify(_program(wrong=wrong, texts=False), "mirrored-2")
    assert verdict.outcome == "abstained", str(verdict)
    assert "a batch of 12" in str(verdict)


def _measuring(strategy: Any, record: Any, shape: tuple[int | None, ...], wrong: bool, unseen: bool = False) -> None:
    """Nothing is trained: rows times drawn numbers, of each example (None), or some for all of a replica's."""
    import tensorflow as tf

    rows = tf.random.stateless_normal([24, 4], (1, 2))

    def replica_step(batch: Any) -> Any:
        if unseen:
            factors = tf.vectorized_map(lambda _: tf.random.uniform(shape, 0.5, 1.5), batch)
        else:
            factors = tf.random.uniform([tf.shape(batch)[0] if size is None else size for size in shape], 0.5, 1.5)
        return tf.reduce_sum(batch * factors) * (2.0 if wrong and strategy.num_replicas_in_sync > 1 else 1.0)

    @tf.function
    def step(batch: Any) -> Any:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica_step, (batch,)), axis=None)

    for batch in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(rows).batch(12)):
        record.step(metrics={"sum": step(batch)})


@pytest.mark.full
@pytest.mark.parametrize(
    ("shape", "wrong", "outcome"),
    [
        ((None, 1), False, "consistent"),
        ((None, 1), True, "inconsistent"),
        ((), False, "abstained"),
        ((), True, "abstained"),
        ((4,), False, "abstained"),
    ],
)
def test_numbers_for_all_rows_of_a_replica_are_its_own(
    shape: tuple[int | None, ...], wrong: bool, outcome: str
) -> None:
    """Numbers of examples are given as they were drawn; those for the whole batch are others on one device."""
    program = Program.of(functools.partial(_measuring, shape=shape, wrong=wrong))
    assert verify(program, "mirrored-2").outcome == outcome


@pytest.mark.full
def test_draws_that_nobody_sees_are_not_judged_where_nothing_is_trained() -> None:
    """As in a step, `tf.vectorized_map` makes operations of its own."""
    verdict = verify(Program.of(functools.partial(_measuring, shape=(1,), wrong=False, unseen=True)), "mirrored-2")
    assert verdict.outcome == "abstained", str(verdict)
    assert "trains nothing" in str(verdict.why_abstained)
