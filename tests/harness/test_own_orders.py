"""Workers that read shards in an order of their own: rows of any length, and parts that belong together or not."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from harness import Program, verify

_GLOBAL = 8


def _train(strategy: Any, record: Any, data: Callable[[Any], Any], losses_of: Callable[..., Any], wrong: bool) -> None:
    """Two epochs; a wrong one takes the mean of each replica's examples for its share of the loss."""
    import tensorflow as tf

    with strategy.scope():
        weights = [tf.Variable(tf.fill([4, 1], value), aggregation=tf.VariableAggregation.SUM) for value in (0.1, 0.2)]

    def replica_step(batch: Any) -> Any:
        with tf.GradientTape() as tape:
            losses = losses_of(batch, *weights)
            loss = tf.reduce_mean(losses) if wrong else tf.nn.compute_average_loss(losses, global_batch_size=_GLOBAL)
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.05 * gradient)
        return loss

    @tf.function
    def step(batch: Any) -> Any:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica_step, (batch,)), axis=None)

    batches = iter(strategy.distribute_datasets_from_function(data))
    for _ in range(6):
        record.step(loss=step(next(batches)), variables=weights)


def _sequences(strategy: Any, record: Any, kind: str, wrong: bool) -> None:
    import numpy as np
    import tensorflow as tf

    lengths = np.random.default_rng(3).integers(1, 7, 24)
    rows = tf.RaggedTensor.from_row_lengths(tf.random.stateless_normal([int(lengths.sum()), 4], (1, 2)), lengths)
    labels = tf.range(24, dtype=tf.float32)[:, None] / 24.0

    def data(context: Any) -> Any:
        shard, size = context.input_pipeline_id, context.get_per_replica_batch_size(_GLOBAL)
        every = tf.data.Dataset.from_tensor_slices((rows, labels)).shard(context.num_input_pipelines, shard)
        every = every.shuffle(24, seed=shard).repeat()
        batches = every.batch(size)
        if kind == "ragged":
            return batches
        dense = kind == "padded"
        return batches.map(lambda row, label: (row.to_tensor() if dense else row.to_sparse(), label))

    def losses(batch: Any, first: Any, second: Any) -> Any:
        given, label = batch
        dense = tf.sparse.to_dense(given) if kind == "sparse" else given
        total = tf.reduce_sum(dense, axis=1)
        return tf.reduce_sum((total @ first - label) ** 2 + (total @ second) ** 2, axis=1)

    _train(strategy, record, data, losses, wrong)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["ragged", "sparse", "padded"])
@pytest.mark.parametrize("wrong", [False, True])
def test_rows_of_any_length_are_followed_in_an_order_of_the_workers_own(kind: str, wrong: bool) -> None:
    """Each worker pads its own batch, or has values of its own number, and one replica is given those of both."""
    verdict = verify(Program.of(functools.partial(_sequences, kind=kind, wrong=wrong)), "multi_worker-2")
    assert verdict.outcome == ("inconsistent" if wrong else "consistent"), str(verdict)
    assert [each.code for each in verdict.conditions] == ["order_of_examples"]


def _beside(strategy: Any, record: Any, wrong: bool) -> None:
    """Labelled examples, and unlabelled ones beside them: nothing says which of these comes with which of those."""
    import tensorflow as tf

    features, free = tf.random.stateless_normal([24, 4], (1, 2)), tf.random.stateless_normal([16, 4], (3, 4))
    labels = tf.reduce_sum(features, axis=1, keepdims=True)

    def data(context: Any) -> Any:
        count, shard = context.num_input_pipelines, context.input_pipeline_id
        told = tf.roll(labels, 2 * shard, axis=0) if wrong else labels
        labelled = tf.data.Dataset.from_tensor_slices((features, told)).shard(count, shard).shuffle(24, seed=shard)
        unlabelled = tf.data.Dataset.from_tensor_slices(free).shard(count, shard).shuffle(16, seed=7 + shard)
        pairs = tf.data.Dataset.zip((labelled.repeat(), unlabelled.repeat()))
        return pairs.batch(context.get_per_replica_batch_size(_GLOBAL))

    def losses(batch: Any, first: Any, second: Any) -> Any:
        (row, label), other = batch
        return tf.reduce_sum((row @ first - label) ** 2 + tf.tanh(other @ first) * tf.tanh(other @ second), axis=1)

    _train(strategy, record, data, losses, wrong=False)


@pytest.mark.full
@pytest.mark.parametrize("wrong", [False, True])
def test_only_parts_that_one_device_always_puts_together_belong_together(wrong: bool) -> None:
    """By other seeds one device pairs them otherwise, while a label stays with its features."""
    verdict = verify(Program.of(functools.partial(_beside, wrong=wrong)), "multi_worker-2")
    assert verdict.outcome == ("inconsistent" if wrong else "consistent"), str(verdict)
    assert {each.law for each in verdict.findings} == ({"rows_whole"} if wrong else set())


def _by_hint(strategy: Any, record: Any, rows: int) -> None:
    """A sum over batches of 4 of a dataset that TensorFlow is to shard by the hint."""
    import tensorflow as tf

    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.HINT
    hint = tf.data.experimental.SHARD_HINT
    every = tf.data.Dataset.range(rows, output_type=tf.float32).shard(hint, hint).batch(4).with_options(options)
    for batch in strategy.experimental_distribute_dataset(every):
        record.step(
            metrics={"sum": strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(lambda x: x, (batch,)), 0)}
        )


@pytest.mark.full
@pytest.mark.parametrize(("strategy", "rows"), [("multi_worker-2", 16), ("mirrored-2", 10)])
def test_a_dataset_that_is_sharded_by_the_hint_is_whole_on_one_device(strategy: str, rows: int) -> None:
    """TensorFlow refuses to iterate it there. Under mirrored-2 it loses its last batch, which is a known defect."""
    verdict = verify(Program.of(functools.partial(_by_hint, rows=rows)), strategy)
    assert verdict.outcome == ("consistent" if rows == 16 else "inconsistent"), str(verdict)
