"""Shuffling without a seed is judged as it happens in a cluster, where every worker draws an order of its own."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import pytest

from harness import Program, verify


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
