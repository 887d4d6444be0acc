"""Cause: a pipeline that the program has sharded itself is sharded once more by TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.judging.explain.causes.protocol import Cause, Inputs, Streams, pieces


@dataclass(frozen=True)
class _ShardedTwice:
    id: str = "sharded_twice"
    priority: int = 14
    kinds: tuple[str, ...] = ("Shard",)
    what: str = "a pipeline that the program has sharded itself is sharded once more by TensorFlow"

    def predictions(self, inputs: Inputs) -> Iterable[Streams]:
        workers = len(inputs.workers)
        if workers < 2:
            return
        total = sum(map(len, inputs.truth))
        text = (
            f"each of {workers} workers consumed its part of its own shard, 1 of {workers * workers} parts of all: "
            f"{sum(map(len, inputs.whole()))} of {total} examples were read. ds.shard was followed by "
            "strategy.experimental_distribute_dataset (or Model.fit), which shards by AutoShardPolicy.AUTO once more. "
            "Leave out ds.shard, or set options.experimental_distribute.auto_shard_policy = "
            "tf.data.experimental.AutoShardPolicy.OFF with it."
        )
        own = [[epoch[k::workers] for epoch in inputs.truth] for k in range(workers)]
        yield Streams(text, [[shard[k::workers] for shard in shards] for k, shards in enumerate(own)])
        # TensorFlow shards what it has cut every batch into, one piece for each replica.
        for batch in dict.fromkeys((inputs.batch, inputs.batch // workers, inputs.batch // inputs.replicas)):
            if batch:
                cut = [[pieces(one, batch, inputs.replicas, k, workers) for one in own[k]] for k in range(workers)]
                yield Streams(text, cut)


CAUSE: Cause = _ShardedTwice()
