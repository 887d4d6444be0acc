"""A program that reads a pipeline and records what it was given, for `verify`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from scenarios.programs.sharding import pipelines
from scenarios.programs.sharding.pipelines import Pipeline
from simulator.agent import current


def make(pipeline: Pipeline) -> Callable[[Any, Any], None]:
    """A program whose loss is the mean of the ids in the batch, exact where the global batch is a power of two."""
    return functools.partial(_train, pipeline=pipeline)


def _train(strategy: Any, record: Any, *, pipeline: Pipeline) -> None:
    import tensorflow as tf

    if not pipeline.seeds:
        task = current()
        tf.random.set_seed(20 + (0 if task is None else pipelines.number_of(task.spec.task)))
    distributed = pipelines.distribute(strategy, pipeline, record.directory)

    def replica_step(ids: Any, values: Any) -> Any:
        return tf.cast(tf.reduce_sum(ids), tf.float32) / pipeline.batch

    @tf.function(reduce_retracing=True)
    def step(batch: Any) -> Any:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica_step, args=batch), axis=None)

    for epoch in range(pipeline.epochs):
        for batch in distributed:
            record.step(loss=step(batch), examples=batch[0], epoch=epoch)
