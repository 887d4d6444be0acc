"""Cause: each worker cuts its shard out of the data set by place, and the shards overlap."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from harness.judging.explain.causes.protocol import EXAMPLES_MIN, Cause, Checked, Inputs, is_cut_first, passes, ranges


@dataclass(frozen=True)
class _OverlappingShards:
    id: str = "overlapping_shards"
    priority: int = 29
    kinds: tuple[str, ...] = ("Skip", "Take")
    what: str = "each worker cuts its shard out of the data set by place, and the shards overlap"

    def predictions(self, inputs: Inputs) -> Iterable[Checked]:
        total = sum(map(len, inputs.truth))
        if len(inputs.workers) < 2 or total < EXAMPLES_MIN or len({len(each) for each in inputs.whole()}) > 1:
            return
        if shared := _by_place(inputs) or _by_pipeline(inputs):
            text = (
                f"each worker consumed a shard's worth of examples{shared}. Use ds.shard(...); or skip(index * size) "
                "and take(size), with size = examples // workers."
            )
            yield Checked(text, True)


def _by_place(inputs: Inputs) -> str:
    """What two shards share, where each is a range of the data set."""
    epochs = list(zip(*inputs.read, strict=True))
    if len(epochs) != len(inputs.truth):
        return ""
    cuts = [ranges(truth, shards) for truth, shards in zip(inputs.truth, epochs, strict=True)]
    found = cuts[0]
    if found is None or any(each != found for each in cuts) or not _overlap(found):
        return ""
    (first, end), (start, last) = next(pair for pair in pairwise(found) if pair[1][0] < pair[0][1])
    return f": one {first} to {end - 1} and the next one {start} to {last - 1}: the two shards share {end - start}"


def _by_pipeline(inputs: Inputs) -> str:
    """The same where ids do not tell places, and the program cuts by place and shuffles its shards."""
    import numpy as np

    if not is_cut_first(inputs.pipelines, ("Skip",)):
        return ""
    for truth, shards in passes(inputs, "worker"):
        size = -(-len(truth) // len(shards))
        if any(len(np.unique(shard)) != len(shard) or not 0 < len(shard) <= size for shard in shards):
            return ""
        for a, b in pairwise(shards):
            if 0 < (both := len(np.intersect1d(a, b))) < size:
                return f" in an order of its own, and two shards share {both}"
    return ""


def _overlap(found: list[tuple[int, int]]) -> bool:
    """Whether each begins behind the one before, and some within it: shards of one index are another mistake."""
    return all(a[0] < b[0] for a, b in pairwise(found)) and any(b[0] < a[1] for a, b in pairwise(found))


CAUSE: Cause = _OverlappingShards()
