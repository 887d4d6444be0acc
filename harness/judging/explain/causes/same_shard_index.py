"""Cause: every worker takes the shard with the same index."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.judging.explain.causes.protocol import Cause, Inputs, Streams, shown


@dataclass(frozen=True)
class _SameShardIndex:
    id: str = "same_shard_index"
    priority: int = 10
    kinds: tuple[str, ...] = ("Shard",)
    what: str = "every worker takes the shard with the same index"

    def predictions(self, inputs: Inputs) -> Iterable[Streams]:
        for by, readers in inputs.readers:
            for index in range(readers):
                streams = [epoch[index::readers] for epoch in inputs.truth]
                text = (
                    f"every {by} consumed shard {index} of {readers} ({shown(streams[0])}), so "
                    f"{readers - 1} of {readers} shards were read by nobody. Shard by the worker's own number: "
                    "ds.shard(context.num_input_pipelines, context.input_pipeline_id) of the InputContext that "
                    "distribute_datasets_from_function hands over, or the task index of TF_CONFIG; not a constant, and "
                    "not a task index that is read where TF_CONFIG is not set."
                )
                yield Streams(text, [streams] * readers, by)


CAUSE: Cause = _SameShardIndex()
