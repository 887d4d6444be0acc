"""Cause: a pipeline that the program has sharded itself is sharded once more by TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.judging.explain.causes.protocol import Cause, Checked, Inputs, Ints, Prediction, Streams, pieces


@dataclass(frozen=True)
class _ShardedTwice:
    id: str = "sharded_twice"
    priority: int = 14
    kinds: tuple[str, ...] = ("Shard", "AutoShardPolicy.DATA", "AutoShardPolicy.AUTO")
    what: str = "a pipeline that the program has sharded itself is sharded once more by TensorFlow"

    def predictions(self, inputs: Inputs) -> Iterable[Prediction]:
        workers = len(inputs.workers)
        if workers < 2:
            return
        total = sum(map(len, inputs.truth))
        text = (
            f"each of {workers} workers consumed its part of its own shard, 1 of {workers * workers} parts of all: "
            f"{sum(map(len, inputs.whole()))} of {total} examples were read. ds.shard, or a list of a worker's own "
            "files, was followed by strategy.experimental_distribute_dataset (or Model.fit), which shards once more. "
            "Leave it out, or set options.experimental_distribute.auto_shard_policy = "
            "tf.data.experimental.AutoShardPolicy.OFF with it."
        )
        yield Checked(text, _is_seen(inputs))
        for size in _sizes(inputs):
            own = [[_dealt(epoch, size, k, workers) for epoch in inputs.truth] for k in range(workers)]
            yield Streams(text, [[shard[k::workers] for shard in shards] for k, shards in enumerate(own)])
            # TensorFlow shards what it has cut every batch into, one piece for each replica.
            for batch in dict.fromkeys((inputs.batch, inputs.batch // workers, inputs.batch // inputs.replicas)):
                if batch:
                    cut = [[pieces(one, batch, inputs.replicas, k, workers) for one in own[k]] for k in range(workers)]
                    yield Streams(text, cut)


def _is_seen(inputs: Inputs) -> bool:
    """Whether the program shards a data set, shuffles it, and has it distributed, and all read no more than one shard.

    Of what is shuffled nobody predicts who reads which example.
    """
    import numpy as np

    read, total = len(np.unique(np.concatenate(inputs.whole()))), len(np.unique(np.concatenate(inputs.truth)))
    for pipeline in inputs.pipelines:
        kinds = {made.kind for made in pipeline.made}
        if pipeline.distributed == "dataset" and {"Shard", "Shuffle"} <= kinds and "AutoShardPolicy.OFF" not in kinds:
            return read * len(inputs.workers) <= total
    return False


def _sizes(inputs: Inputs) -> list[int]:
    """How many examples in a row a worker may have taken at a time: one, or those of a file, all of one size."""
    sizes = {len(epoch) for epoch in inputs.truth}
    most = min(sizes) // len(inputs.workers)
    return [size for size in range(1, most + 1) if not any(whole % size for whole in sizes)]


def _dealt(ids: Ints, size: int, worker: int, workers: int) -> Ints:
    """What one of several workers has taken that take turns at pieces of a size."""
    return ids.reshape(-1, size)[worker::workers].reshape(-1)


CAUSE: Cause = _ShardedTwice()
