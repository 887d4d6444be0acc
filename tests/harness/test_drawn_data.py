"""Examples that each worker draws for itself: what draws hide is judged by a run in which all draw the same number."""

from __future__ import annotations

import functools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from harness import Program, example_runs, verify
from harness.attempts import JudgedAttempt
from harness.evidence.reference import Reference
from harness.evidence.trace import RunTrace, Seen
from harness.judging.conditions import DRAWN_DATA, ORDER, Condition
from harness.judging.drawn_data import FIXED, comes_twice, is_settled, with_data_of
from harness.judging.laws.protocol import Finding, Judgement
from harness.judging.verdict import Verdict
from simulator import LockstepError
from tests.harness._traces import client, step


def _augmented(strategy: Any, record: Any, mistake: str = "", rejects: bool = False, classes: int = 24) -> None:
    """Two epochs over shards of 24 examples with noise, which each worker draws for itself."""
    import tensorflow as tf

    features = tf.random.stateless_normal([24, 4], (1, 2))
    labels = tf.cast(tf.range(24) % classes, tf.float32)[:, None] / 24.0
    with strategy.scope():
        w = tf.Variable(tf.fill([4, 1], 0.1), aggregation=tf.VariableAggregation.SUM)

    def noisy(row: Any, label: Any) -> Any:
        noise = tf.random.normal([4], stddev=0.1)
        if rejects:
            noise = tf.while_loop(lambda drawn: drawn[0] < 1.0, lambda _: tf.random.normal([4]), [noise])[0]
        return row + noise, label

    def scaled(row: Any, label: Any) -> Any:
        scale = tf.random.uniform([])
        return scale * row, scale * label

    def scaled_apart(row: Any, label: Any) -> Any:
        return tf.random.uniform([]) * row, tf.random.uniform([]) * label

    def data(context: Any) -> Any:
        shard, size = context.input_pipeline_id, context.get_per_replica_batch_size(8)
        told = tf.roll(labels, shard, axis=0) if mistake == "labels" else labels
        moved = features + 0.5 * shard if mistake == "features" else features
        read = 0 if mistake == "shard" else shard
        every = tf.data.Dataset.from_tensor_slices((moved, told)).shard(context.num_input_pipelines, read)
        every = every.shuffle(12)
        if mistake == "scale":
            every = every.map(scaled_apart if shard else scaled)
        return (every.repeat().map(noisy) if mistake == "no end" else every.map(noisy).repeat()).batch(size)

    def replica_step(batch: Any) -> Any:
        rows, label = batch
        with tf.GradientTape() as tape:
            losses = tf.reduce_sum((rows @ w - label) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=8)
        w.assign_sub(0.05 * tape.gradient(loss, w))
        return loss

    @tf.function
    def step(batch: Any) -> Any:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica_step, (batch,)), axis=None)

    batches = iter(strategy.distribute_datasets_from_function(data))
    for _ in range(5 if mistake == "no end" else 6):
        record.step(loss=step(next(batches)), variables=[w])


@pytest.mark.full
@pytest.mark.parametrize(
    ("mistake", "law"),
    [
        ("", None),
        ("labels", "rows_whole"),
        ("no end", None),  # and none: the run ends within an epoch
        ("features", "rows_whole"),
        ("scale", "rows_whole"),
        ("shard", "examples_match_reference"),
    ],
)
def test_what_is_wrong_with_examples_is_found_beside_noise(mistake: str, law: str | None) -> None:
    """The noise makes other examples of all of them."""
    verdict = verify(Program.of(functools.partial(_augmented, mistake=mistake)), "multi_worker-2")
    assert next((each.law for each in verdict.findings), None) == law, str(verdict)
    assert verdict.outcome == ("inconsistent" if law else "consistent")
    assert [each.code for each in verdict.conditions] == [DRAWN_DATA]
    if mistake == "shard":  # what explains it stands in the verdict, too
        assert verdict.explanation is not None
        assert verdict.explanation.rule == "examples_duplicated"
        assert verdict.ledger is not None


@pytest.mark.full
def test_features_that_one_worker_changes_are_not_taken_for_drawn() -> None:
    """Where no label tells which ones they are: one device draws none of them, by whatever seed."""
    program = Program.of(functools.partial(_augmented, mistake="features", classes=4))
    verdict = verify(program, "multi_worker-2")
    assert verdict.outcome == "abstained", str(verdict)
    assert not verdict.conditions


@pytest.mark.full
def test_a_loop_that_waits_for_another_number_is_ended() -> None:
    """Then only other draws of one device tell."""
    verdict = verify(Program.of(functools.partial(_augmented, rejects=True)), "multi_worker-2")
    assert verdict.outcome == "consistent", str(verdict)
    assert verdict.seconds < 90.0


def _endless(strategy: Any, record: Any, wrong: bool) -> None:
    """Five epochs of a shard, in each of whose batches there are examples of several epochs."""
    import tensorflow as tf

    features = tf.random.stateless_normal([30, 4], (1, 2))
    with strategy.scope():
        w = tf.Variable(tf.fill([4, 1], 0.1), aggregation=tf.VariableAggregation.SUM)

    def data(context: Any) -> Any:
        shard = 0 if wrong else context.input_pipeline_id
        every = tf.data.Dataset.from_tensor_slices(features).shard(context.num_input_pipelines, shard).repeat()
        return every.shuffle(30, seed=context.input_pipeline_id).batch(context.get_per_replica_batch_size(8))

    def replica_step(rows: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(tf.reduce_sum(tf.tanh(rows @ w), axis=1), global_batch_size=8)
        w.assign_sub(0.05 * tape.gradient(loss, w))
        return loss

    @tf.function
    def step(rows: Any) -> Any:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica_step, (rows,)), axis=None)

    batches = iter(strategy.distribute_datasets_from_function(data))
    for _ in range(9):
        record.step(loss=step(next(batches)), variables=[w])


@pytest.mark.full
@pytest.mark.parametrize("wrong", [False, True])
def test_how_often_examples_come_may_be_drawn(wrong: bool) -> None:
    """Where a shuffle stands behind `repeat` one device has others by other seeds; but not each of a half twice."""
    verdict = verify(Program.of(functools.partial(_endless, wrong=wrong)), "multi_worker-2")
    assert verdict.outcome == ("inconsistent" if wrong else "consistent"), str(verdict)
    assert [each.code for each in verdict.conditions] == ([] if wrong else [DRAWN_DATA])


def _verdict(*laws: Judgement, code: str = DRAWN_DATA) -> Verdict:
    return replace(Verdict("train", "multi_worker-2", laws), conditions=(Condition(code, "given"),))


def _seen(rows: list[int]) -> RunTrace:
    seen = Seen(1, 1.0, examples=(tuple(rows),), columns=(0,))
    return RunTrace((msgspec.structs.replace(client(step(1)), seen=(seen,)),))


@pytest.mark.parametrize(
    ("run", "reference", "again", "told"),
    [
        ([*range(40), *range(8)], range(48), range(10, 58), True),
        ([*range(44), *range(4)], range(48), range(10, 58), False),  # as chance may have it
        ([*range(40), *range(8)], [*range(41), *range(7)], range(48), False),  # one device has as many
        ([*range(40), *range(8)], range(24), range(24), False),  # of fewer examples fewer come again
        (range(48), range(48), range(48), False),
    ],
)
def test_examples_that_come_twice_are_told_from_chance(run: Any, reference: Any, again: Any, told: bool) -> None:
    """By those of one device, with two orders."""
    assert (comes_twice(*(_seen(list(rows)) for rows in (run, reference, again))) is not None) == told


def test_a_run_with_fixed_draws_settles_examples_unless_it_has_others_too() -> None:
    """What it has found wrong is wrong of the run; all other laws stay those of the run."""
    held = Judgement("rows_whole", "held", compared=1)
    broken = Judgement("rows_whole", "broken", findings=(Finding("rows_whole", "mixed"),))
    loss = Judgement("loss_matches_reference", "held", compared=1)
    wrong_loss = replace(loss, status="broken", findings=(Finding("loss_matches_reference", "by noise"),))
    assert not is_settled(_verdict(held))
    assert is_settled(_verdict(held, code=ORDER))
    assert is_settled(_verdict(broken))
    verdict = _verdict(held, loss)
    assert with_data_of(verdict, _verdict(held, wrong_loss, code=ORDER), FIXED) == verdict
    found = with_data_of(verdict, _verdict(broken, wrong_loss), FIXED)
    assert found.judgements == (broken, loss)
    assert with_data_of(_verdict(loss), _verdict(broken), FIXED).judgements == (loss, broken)


@pytest.mark.parametrize("fails", [True, False])
def test_other_examples_are_not_forgotten_where_one_device_fails(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    """That it may tell more as it is on one device is no reason to call them right."""

    def read(*given: Any) -> Verdict:
        if fails:
            raise LockstepError("it draws for the batch of one replica")
        return _verdict(Judgement("examples_in_turn", "held"))

    monkeypatch.setattr(example_runs, "_read_by_one_replica", read)
    monkeypatch.setattr(example_runs, "not_drawn", lambda reference, again: "they follow from a number in Python")
    attempt = SimpleNamespace(drawn_apart=lambda: _seen([1]), case=SimpleNamespace(workers=1))
    found = example_runs._unless_drawn(
        cast("JudgedAttempt", attempt),
        _verdict(Judgement("variables_match_reference", "held")),
        Reference(_seen([1]), ()),
    )
    assert (found.outcome, found.abstained) == ("abstained", "they follow from a number in Python")
