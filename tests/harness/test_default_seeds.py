"""Shuffling without a seed is judged as it happens in a cluster, where every worker draws an order of its own."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import pytest

from harness import Program, verify


def _train(strategy: Any, record: Any, seed: str) -> None:
    """24 ids, shuffled before TensorFlow shards them by element."""
    import tensorflow as tf

    if seed == "global":
        tf.random.set_seed(5)
    ids = tf.data.Dataset.range(24).shuffle(24, seed=5 if seed == "operation" else None).batch(6)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    for batch in strategy.experimental_distribute_dataset(ids.with_options(options)):
        record.step(examples=batch)


def _program(seed: str) -> Program:
    return dataclasses.replace(Program.of(functools.partial(_train, seed=seed)), digest=f"unseeded-{seed}")


@pytest.mark.full
def test_an_unseeded_shuffle_before_the_shard_is_caught() -> None:
    """Workers that shuffle differently and then take their shares read some examples twice and others never."""
    verdict = verify(_program("none"), "multi_worker-2", tier="exact")
    assert not verdict
    assert verdict.explanation is not None
    assert (verdict.explanation.rule, verdict.explanation.cause) == ("examples_duplicated", "shuffle_before_shard")


@pytest.mark.parametrize(
    ("seed", "strategy"),
    [
        ("operation", "multi_worker-2"),
        pytest.param("global", "multi_worker-2", marks=pytest.mark.full),
        pytest.param("none", "mirrored-2", marks=pytest.mark.full),
    ],
)
def test_a_seed_or_a_single_process_makes_it_right(seed: str, strategy: str) -> None:
    """With the operation's seed or the program's global one all workers shuffle alike, and one process does anyway."""
    assert verify(_program(seed), strategy, tier="exact")
