"""Cause: each worker shuffles its own shard, so that steps hold other examples than on one device."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.judging.explain.causes.protocol import Cause, Checked, Inputs, is_cut_first

SHUFFLED_SHARD = "shuffled_shard"


@dataclass(frozen=True)
class _ShuffledShard:
    id: str = SHUFFLED_SHARD
    priority: int = 28
    kinds: tuple[str, ...] = ("Shuffle",)
    what: str = "each worker shuffles its own shard, so that steps hold other examples than on one device"

    def predictions(self, inputs: Inputs) -> Iterable[Checked]:
        if len(inputs.workers) < 2 or len(inputs.read[0]) != len(inputs.truth) or not is_cut_first(inputs.pipelines):
            return
        text = (
            "each worker read a shard of its own, every example of it once an epoch, and in an order of its own. That "
            "is no mistake where a training only draws from its examples; for the steps of one device shuffle before "
            "the shard, with one seed for all workers: ds.shuffle(n, seed=...).shard(...)."
        )
        yield Checked(text, all(_are_shards(inputs, epoch) for epoch in range(len(inputs.truth))))


def _are_shards(inputs: Inputs, epoch: int) -> bool:
    """Whether all examples of an epoch were read once, and by each worker equally many."""
    import numpy as np

    read = [own[epoch] for own in inputs.read]
    sizes = [len(part) for part in read]
    return max(sizes) - min(sizes) <= 1 and np.array_equal(np.sort(np.concatenate(read)), np.sort(inputs.truth[epoch]))


CAUSE: Cause = _ShuffledShard()
