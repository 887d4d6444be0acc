"""Cause: each worker shuffles in an order of its own and takes its shard of that."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from harness.judging.explain.causes.protocol import (
    EXAMPLES_MIN,
    Cause,
    Checked,
    Inputs,
    Ints,
    is_cut_first,
    passes,
    ranges,
)

_DEVIATIONS_MAX = 4.0
"""Random shards share a hypergeometric number of ids: further from its mean than this is another cause."""


@dataclass(frozen=True)
class _ShuffleBeforeShard:
    id: str = "shuffle_before_shard"
    priority: int = 30
    kinds: tuple[str, ...] = ("Shuffle",)
    what: str = "each worker shuffles in an order of its own and takes its shard of that"

    def predictions(self, inputs: Inputs) -> Iterable[Checked]:
        for by, _ in inputs.readers:
            read = inputs.by(by)
            if len(read[0]) != len(inputs.truth) or is_cut_first(inputs.pipelines):
                continue
            epochs = [None if ranges(*each) else _shared(*each) for each in passes(inputs, by)]
            if not epochs or any(shared is None for shared in epochs) or epochs[0] is None:
                continue
            found, mean, deviation = epochs[0]
            text = (
                f"each {by} consumed a shard's worth of different ids, in an order of its own, and two shards share "
                f"{found} ids where none should be shared and {mean:.3g} (give or take {deviation:.2g}) would be if "
                "each were drawn at random: the data set was shuffled before the shard, with another order for each "
                f"{by}. Shard before shuffling: ds.shard(...).shuffle(...); or give shuffle the same seed everywhere, "
                "with reshuffle_each_iteration=False or as many iterations everywhere."
            )
            yield Checked(text, True)


def _shared(truth: Ints, shards: list[Ints]) -> tuple[int, float, float] | None:
    """Of the first two shards how many ids they share, the mean and deviation of that; None if not random shards."""
    import numpy as np

    total, place = len(truth), {key: k for k, key in enumerate(truth.tolist())}
    if total < EXAMPLES_MIN or len(place) < total:
        return None
    shuffled = False
    for shard in shards:
        places = [place.get(key, -1) for key in shard.tolist()]
        if not places or min(places) < 0 or len(set(places)) < len(places) or len(places) > -(-total // len(shards)):
            return None
        shuffled |= not all(np.diff(places) > 0)
    if not shuffled:
        return None  # all in the reference's order, which the one with the reference's seed may have anyhow
    found = [_overlap(a, b, total) for a, b in combinations(shards, 2)]
    if any(abs(shared - mean) > _DEVIATIONS_MAX * deviation for shared, mean, deviation in found):
        return None
    return found[0] if any(shared for shared, _, _ in found) else None


def _overlap(a: Ints, b: Ints, total: int) -> tuple[int, float, float]:
    import numpy as np

    mean = len(a) * len(b) / total
    variance = mean * (1 - len(a) / total) * (1 - len(b) / total) * total / (total - 1)
    return len(np.intersect1d(a, b)), mean, float(variance**0.5)


CAUSE: Cause = _ShuffleBeforeShard()
