"""The ledger of real TensorFlow input pipelines: wrong ones get their cause, and `record.step` checks what it gets."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import pytest

from harness import Ledger, Program, observe, verify
from simulator import RunFailed

N = 21
BATCH = 6


def _pipelines(strategy: Any, wrong: str) -> Any:
    """The distributed batches of ids, with a mistake that one device cannot show."""
    import tensorflow as tf

    ids = tf.data.Dataset.range(N)
    resolver = strategy.cluster_resolver
    worker, workers = (resolver.task_id, 2) if resolver is not None and resolver.cluster_spec().jobs else (0, 1)
    if wrong in ("auto_shard_off", "sharded_twice", "dropped_tail"):
        options = tf.data.Options()
        policy = tf.data.experimental.AutoShardPolicy
        options.experimental_distribute.auto_shard_policy = policy.OFF if wrong == "auto_shard_off" else policy.AUTO
        if wrong == "sharded_twice":
            ids = ids.shard(workers, worker)  # sharded_twice
        several = strategy.num_replicas_in_sync > 1
        ids = ids.batch(BATCH, drop_remainder=wrong == "dropped_tail" and several)  # dropped_tail
        ids = ids.with_options(options)  # auto_shard_off
        return strategy.experimental_distribute_dataset(ids)

    def shard(context: Any) -> Any:
        if wrong == "shard_after_batch":
            return ids.batch(BATCH).shard(context.num_input_pipelines, context.input_pipeline_id)  # shard_after_batch
        if wrong == "shuffle_before_shard":
            own = ids.shuffle(N, seed=context.input_pipeline_id)  # shuffle_before_shard
            return own.shard(context.num_input_pipelines, context.input_pipeline_id).batch(BATCH // workers)
        shard = ids.shard(context.num_input_pipelines, context.input_pipeline_id)
        return shard.batch(BATCH)  # batch_not_divided

    return strategy.distribute_datasets_from_function(shard)


def _train(strategy: Any, record: Any, wrong: str) -> None:
    for batch in _pipelines(strategy, wrong):
        record.step(examples=batch)


def _program(wrong: str) -> Program:
    return dataclasses.replace(Program.of(functools.partial(_train, wrong=wrong)), digest=f"ledger-{wrong}")


@pytest.mark.parametrize(
    ("wrong", "strategy", "rule"),
    [
        pytest.param("auto_shard_off", "multi_worker-2", "examples_duplicated", marks=pytest.mark.full),
        # The causes of the other pipelines: tests/harness/test_causes.py, from recorded numbers.
        pytest.param("sharded_twice", "multi_worker-2", "examples_missing", marks=pytest.mark.full),
        pytest.param("shard_after_batch", "multi_worker-2", "global_batch_per_replica", marks=pytest.mark.full),
        pytest.param("shuffle_before_shard", "multi_worker-2", "examples_duplicated", marks=pytest.mark.full),
        pytest.param("dropped_tail", "mirrored-2", "examples_missing", marks=pytest.mark.full),
        pytest.param("batch_not_divided", "mirrored-2", "global_batch_per_replica", marks=pytest.mark.full),
    ],
)
def test_a_wrong_pipeline_of_tensorflow_is_given_its_cause(wrong: str, strategy: str, rule: str) -> None:
    """From the ids alone, with its line; the table of who consumed what is part of the text."""
    verdict = verify(_program(wrong), strategy, tier="exact", explain=True)
    assert not verdict
    assert verdict.explanation is not None, str(verdict)
    assert (verdict.explanation.rule, verdict.explanation.cause) == (rule, wrong), str(verdict)
    assert "examples by step and worker" in str(verdict)
    assert verdict.to_json()["explanation"]["cause"] == wrong
    assert verdict.culprit is not None, str(verdict)
    assert verdict.culprit.source.endswith(f"# {wrong}")


@pytest.mark.full  # scenarios/test_sharding.py observes
def test_observe_runs_without_judging() -> None:
    """The wrong pipeline's ledger: both workers read everything, each half a batch at a step."""
    ledger = Ledger.of(observe(_program("auto_shard_off"), "multi_worker-2"))
    assert ledger.by_worker() == {"worker:0": list(range(N)), "worker:1": list(range(N))}
    assert ledger.sizes()[1] == {"worker:0": (BATCH // 2,), "worker:1": (BATCH // 2,)}
    assert ledger.surplus(range(N)).total() == N


def _reporting(strategy: Any, record: Any) -> None:
    import numpy as np

    record.step(examples={"worker:1": np.arange(3), "worker:0": []}, epoch=np.int64(4))
    record.step(examples={"worker:0": [7, 8]}, epoch=5)


def test_examples_by_task_and_epochs_are_recorded() -> None:
    """A mapping says who consumed what, whoever reports it."""
    ledger = Ledger.of(observe(_reporting, "default"))
    assert (ledger.clients, ledger.workers) == (("local:0",), ("worker:0", "worker:1"))
    assert ledger.by_worker() == {"worker:0": [7, 8], "worker:1": [0, 1, 2]}
    assert ledger.epochs() == [4, 5]
    assert ledger.sizes()[1] == {"worker:0": (0,), "worker:1": (3,)}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            {"examples": {"worker": [1]}},
            "ValueError: record.step: examples by task have keys such as 'worker:0', not 'worker'",
        ),
        (
            {"examples": {"worker:0": [0.5]}},
            "TypeError: record.step got an array of float64 as examples",
        ),
        ({"examples": [2**63]}, "ValueError: record.step got 9223372036854775808 in examples: ids fit"),
        ({"epoch": 1.5}, "TypeError"),
    ],
)
def test_what_is_no_task_id_or_epoch_is_an_error(arguments: dict[str, Any], error: str) -> None:
    """It fails in the program, at the call."""

    def train(strategy: Any, record: Any) -> None:
        record.step(**arguments)

    with pytest.raises(RunFailed, match=error.partition("'")[0]):
        observe(train, "default")
