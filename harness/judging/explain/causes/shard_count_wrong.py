"""Cause: the data set is split into another number of shards than there are pipelines to read them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.judging.explain.causes.protocol import Cause, Inputs, Streams

_COUNT_MAX = 8


@dataclass(frozen=True)
class _ShardCountWrong:
    id: str = "shard_count_wrong"
    priority: int = 12
    kinds: tuple[str, ...] = ("Shard",)
    what: str = "the data set is split into another number of shards than there are pipelines to read them"

    def predictions(self, inputs: Inputs) -> Iterable[Streams]:
        workers = len(inputs.workers)
        counts = dict.fromkeys([inputs.replicas, *range(2, _COUNT_MAX + 1)])
        for count in counts:
            if count <= workers:
                continue
            streams = [[epoch[k::count] for epoch in inputs.truth] for k in range(workers)]
            which = "the number of replicas" if count == inputs.replicas else "not the number of workers"
            text = (
                f"{_readers(workers)} consumed shards 0 to {workers - 1} of {count}, {which}: {count - workers} of "
                f"{count} shards were read by nobody. A worker has one input pipeline for all of its replicas: "
                "ds.shard(context.num_input_pipelines, context.input_pipeline_id), not num_replicas_in_sync."
            ).replace("shards 0 to 0", "shard 0")
            yield Streams(text, streams)


def _readers(workers: int) -> str:
    return f"{workers} workers" if workers > 1 else "the one worker"


CAUSE: Cause = _ShardCountWrong()
