"""Shuffling without a seed is judged as it happens in a cluster, where every worker draws an order of its own."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import pytest

from harness import Program, verify

_HOW = ("numpy", "tensorflow")


def _train(strategy: Any, record: Any, seed: str, inside: bool = False) -> None:
    """24 ids, shuffled before TensorFlow shards them by element; by an operation inside of a function, if asked."""
    import tensorflow as tf

    if seed == "global":
        tf.random.set_seed(5)
    of_operation = 5 if seed == "operation" else None
    if inside:
        whole = tf.data.Dataset.range(1).map(lambda _: tf.random.shuffle(tf.range(24), seed=of_operation)).unbatch()
    else:
        whole = tf.data.Dataset.range(24).shuffle(24, seed=of_operation)
    ids = whole.batch(6)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    for batch in strategy.experimental_distribute_dataset(ids.with_options(options)):
        record.step(examples=batch)


def _program(seed: str, *, inside: bool = False) -> Program:
    program = Program.of(functools.partial(_train, seed=seed, inside=inside))
    return dataclasses.replace(program, digest=f"unseeded-{seed}-{inside}")


@pytest.mark.full
@pytest.mark.parametrize("inside", [False, True])
def test_an_unseeded_shuffle_before_the_shard_is_caught(inside: bool) -> None:
    """Workers that shuffle differently and then take their shares read some examples twice and others never."""
    verdict = verify(_program("none", inside=inside), "multi_worker-2", tier="exact")
    assert not verdict
    assert verdict.explanation is not None
    assert (verdict.explanation.rule, verdict.explanation.cause) == ("examples_duplicated", "shuffle_before_shard")


@pytest.mark.parametrize(
    ("seed", "strategy", "inside"),
    [
        ("operation", "multi_worker-2", False),
        pytest.param("operation", "multi_worker-2", True, marks=pytest.mark.full),
        pytest.param("global", "multi_worker-2", False, marks=pytest.mark.full),
        pytest.param("global", "multi_worker-2", True, marks=pytest.mark.full),
        pytest.param("none", "mirrored-2", False, marks=pytest.mark.full),
        pytest.param("none", "mirrored-2", True, marks=pytest.mark.full),
    ],
)
def test_a_seed_or_a_single_process_makes_it_right(seed: str, strategy: str, inside: bool) -> None:
    """With the operation's seed or the program's global one all workers shuffle alike, and one process does anyway."""
    assert verify(_program(seed, inside=inside), strategy, tier="exact")


def _indexed(strategy: Any, record: Any, how: str) -> None:
    """Each worker shuffles all indices by itself, outside of any data set, and takes its own."""
    import random

    import numpy as np
    import tensorflow as tf

    order = list(range(24))
    if how == "seeded":
        np.random.seed(5)  # as programs do
        random.seed(5)
        tf.random.set_seed(5)
    if how in ("python", "seeded"):
        random.shuffle(order)
    if how in ("numpy", "seeded"):
        np.random.shuffle(order)
    if how in ("tensorflow", "seeded"):
        order = tf.random.shuffle(order).numpy().tolist()

    def shard(context: Any) -> Any:
        own = order[context.input_pipeline_id :: context.num_input_pipelines]
        return tf.data.Dataset.from_tensor_slices(own).batch(context.get_per_replica_batch_size(6))

    for batch in strategy.distribute_datasets_from_function(shard):
        record.step(examples=batch)


@pytest.mark.parametrize("how", ["seeded", "python", *(pytest.param(each, marks=pytest.mark.full) for each in _HOW)])
def test_an_order_that_each_worker_draws_for_itself_needs_a_seed(how: str) -> None:
    """By Python, NumPy, or an operation of TensorFlow's."""
    program = dataclasses.replace(Program.of(functools.partial(_indexed, how=how)), digest=f"indexed-{how}")
    verdict = verify(program, "multi_worker-2", tier="exact")
    assert verdict.outcome == ("consistent" if how == "seeded" else "inconsistent"), str(verdict)
    if how != "seeded":
        assert verdict.explanation is not None
        assert verdict.explanation.cause == "shuffle_before_shard"


@pytest.mark.full
@pytest.mark.parametrize(("skips", "outcome"), [(False, "consistent"), (True, "inconsistent")])
def test_a_function_that_is_started_again_shuffles_anew(skips: bool, outcome: str) -> None:
    """Right by whole epochs, and wrong where the steps that were done are skipped in another order."""
    program = dataclasses.replace(Program.of(functools.partial(_resumed, skips=skips)), digest=f"resumed-{skips}")
    verdict = verify(program, "mirrored-2", interrupt_at=6, explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)
    assert [each.code for each in verdict.conditions] == ([] if skips else ["order_of_examples"])


def _resumed(strategy: Any, record: Any, skips: bool) -> None:
    """Saves after each step, or after each epoch of four."""
    import tensorflow as tf

    with strategy.scope():
        w, done = tf.Variable(1.0), tf.Variable(0)
    saved = tf.train.Checkpoint(w=w, done=done)
    manager = tf.train.CheckpointManager(saved, str(record.directory), max_to_keep=3)
    saved.restore(manager.latest_checkpoint)

    def replica_step(ids: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.cast(ids, tf.float32) / 24 * w - 1) ** 2) / 6
        w.assign_sub(0.1 * tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, w)))

    data = tf.data.Dataset.range(24).shuffle(24).batch(6)
    if skips:
        data = data.repeat(3).skip(done.numpy())
    distributed = strategy.experimental_distribute_dataset(data)
    for _ in range(1 if skips else 3 - done.numpy()):
        for batch in distributed:
            strategy.run(replica_step, args=(batch,))
            record.step(examples=batch, variables=[w])
            if skips:
                done.assign_add(1)
                manager.save()
        if not skips:
            done.assign_add(1)
            manager.save()
