"""Cause: a tail was cut off, of the data set, of each shard, or of each batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.judging.explain.causes.protocol import BATCHES, Cause, Inputs, Ints, Total


@dataclass(frozen=True)
class _DroppedTail:
    id: str = "dropped_tail"
    priority: int = 24
    kinds: tuple[str, ...] = (*BATCHES, "Take")
    what: str = "a tail was cut off, of the data set, of each shard, or of each batch"

    def predictions(self, inputs: Inputs) -> Iterable[Total]:
        total = sum(map(len, inputs.truth))
        for text, kept in _models(inputs):
            lost = total - sum(map(len, kept))
            if lost > 0:
                yield Total(f"{lost} of {total} examples over {_epochs(inputs)} are {text}", kept)


def _models(inputs: Inputs) -> Iterable[tuple[str, Sequence[Ints]]]:
    """What was lost and how to keep it, and what is read without it."""
    replicas, batch = inputs.replicas, inputs.batch
    text = (
        f"the last batch of an epoch, smaller than {batch}: batch(..., drop_remainder=True), or steps_per_epoch "
        "rounded down. Use drop_remainder=False and -(-examples // global_batch) steps."
    )
    yield text, [epoch[: len(epoch) // batch * batch] for epoch in inputs.truth]
    yield from _of_shards(inputs)
    each = batch // replicas
    text = (
        f"the last of each batch: {batch} // {replicas} = {each} for each replica leaves {batch - replicas * each} "
        "out. Let strategy.experimental_distribute_dataset divide the batch, or take a global batch that "
        "strategy.num_replicas_in_sync divides."
    )
    batches = [one for epoch in inputs.batches for one in epoch]
    yield text, [one[: min(replicas * each, len(one) // replicas * replicas)] for one in batches]
    yield text, [one[: replicas * each] for one in batches]


def _of_shards(inputs: Inputs) -> Iterable[tuple[str, Sequence[Ints]]]:
    """The same for a tail of each worker's shard."""
    workers = len(inputs.workers)
    epochs = [[epoch[k::workers] for k in range(workers)] for epoch in inputs.truth]
    for size in dict.fromkeys((max(1, inputs.batch // workers), max(1, inputs.batch // inputs.replicas))):
        text = (
            f"the last batch of each worker's shard, smaller than {size}: batch(..., drop_remainder=True) after "
            "ds.shard. Use drop_remainder=False, or a number of examples that global_batch divides."
        )
        yield text, [shard[: len(shard) // size * size] for shards in epochs for shard in shards]
        text = (
            f"beyond the end of the shortest shard, in batches of {size}: training stops with the first worker that "
            "runs out. Let every worker run as many steps as the longest shard has; "
            "strategy.experimental_distribute_dataset gives the others empty batches."
        )
        yield text, [shard[: -(-len(shards[-1]) // size) * size] for shards in epochs for shard in shards]
    text = (
        f"beyond the end of the shortest shard: {workers} shards of {len(epochs[0][-1])} each. Let every worker read "
        "its whole shard."
    )
    yield text, [shard[: len(shards[-1])] for shards in epochs for shard in shards]


def _epochs(inputs: Inputs) -> str:
    return f"{len(inputs.truth)} epochs" if len(inputs.truth) > 1 else "the epoch"


CAUSE: Cause = _DroppedTail()
