"""Cause: whole batches are dealt out to the workers, because the shard comes after the batch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.judging.explain.causes.protocol import Cause, Inputs, Streams


@dataclass(frozen=True)
class _ShardAfterBatch:
    id: str = "shard_after_batch"
    priority: int = 16
    kinds: tuple[str, ...] = ("Shard",)
    what: str = "whole batches are dealt out to the workers, because the shard comes after the batch"

    def predictions(self, inputs: Inputs) -> Iterable[Streams]:
        import numpy as np

        workers = len(inputs.workers)
        if workers < 2:
            return
        text = (
            f"worker k consumed the reference's global batches k, k + {workers}, k + {2 * workers}, ... whole, each of "
            f"{inputs.batch}, so a step has up to {workers * inputs.batch} examples instead of {inputs.batch}, and "
            "workers run out at different steps if the batches do not divide. Shard before batching: "
            "ds.shard(context.num_input_pipelines, context.input_pipeline_id)"
            ".batch(context.get_per_replica_batch_size(global_batch))."
        )
        # Of batches that were divided afterwards nothing tells them from files of a batch each: see `sharded_by_files`.
        whole = all(sum(sizes) == inputs.batch for sizes in inputs.sizes)
        empty = inputs.truth[0][:0]
        dealt = [[np.concatenate([empty, *one[k::workers]]) for one in inputs.batches] for k in range(workers)]
        yield Streams(text, dealt, sized=whole)
        if len(inputs.batches) > 1:  # of a repeated data set, whose batches are numbered over all epochs
            run = [batch for one in inputs.batches for batch in one]
            dealt = [[np.concatenate([empty, *run[k::workers]])] for k in range(workers)]
            yield Streams(text, dealt, sized=whole)


CAUSE: Cause = _ShardAfterBatch()
