"""Cause: a pipeline that has its own shard, if it needs one, makes batches of the global size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.judging.explain.causes.protocol import BATCHES, Cause, Inputs, Streams


@dataclass(frozen=True)
class _BatchNotDivided:
    id: str = "batch_not_divided"
    priority: int = 18
    kinds: tuple[str, ...] = BATCHES
    what: str = "a pipeline that has its own shard, if it needs one, makes batches of the global size"

    def predictions(self, inputs: Inputs) -> Iterable[Streams]:
        workers, batch = len(inputs.workers), inputs.batch
        every_replica = all(size == batch for sizes in inputs.sizes for size in sizes)
        every_worker = all(sum(sizes) == batch for sizes in inputs.sizes)
        if inputs.replicas < 2 or (workers < 2 and not every_replica):
            return
        who = f"each of {inputs.replicas} replicas" if every_replica else f"each of {workers} workers"
        shard = "read the data set in order" if workers < 2 else "read its own shard"
        times = ", or the batch was multiplied by num_replicas_in_sync" if workers < 2 else ""
        text = (
            f"{who} {shard}, in batches of {batch}, the global size{times}. Batch by "
            "context.get_per_replica_batch_size(global_batch) in distribute_datasets_from_function; a batch of the "
            "global size is right only for strategy.experimental_distribute_dataset, which divides it."
        )
        streams = [[epoch[k::workers] for epoch in inputs.truth] for k in range(workers)]
        yield Streams(text, streams, sized=every_replica or every_worker)


CAUSE: Cause = _BatchNotDivided()
