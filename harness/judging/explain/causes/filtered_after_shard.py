"""Cause: each worker filters its own shard, so that the shards are no longer of one length."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.judging.explain.causes.protocol import Cause, Checked, Inputs, Ints, Streams

_EXAMPLES_MIN = 12
# A generator is a flat map, whose Python may filter.
_LEAVE_OUT = ("Filter", "TakeWhile", "IgnoreErrors", "FlatMap", "Interleave", "ParallelInterleave")
_CURE = (
    "Filter before the shard, ds.filter(...).shard(...), and the steps hold the examples of one device; otherwise they "
    "do not, and workers run out of data at different steps."
)


@dataclass(frozen=True)
class _FilteredAfterShard:
    id: str = "filtered_after_shard"
    priority: int = 27
    kinds: tuple[str, ...] = ("Filter",)
    what: str = "each worker filters its own shard, so that the shards are no longer of one length"

    def predictions(self, inputs: Inputs) -> Iterable[Streams | Checked]:
        workers = len(inputs.workers)
        if workers < 2 or len(inputs.read[0]) != len(inputs.truth) or _in_turn(inputs) or not _may_leave_out(inputs):
            return
        read = inputs.whole()
        if sum(map(len, read)) < _EXAMPLES_MIN or not all(map(len, read)):
            return
        counts = ", ".join(str(len(part)) for part in read)
        first = [int(part[0]) % workers for part in read]
        if len(set(first)) == workers:
            text = (
                f"ids that leave one remainder when they are divided by {workers} were read by one worker ({counts} "
                f"examples), though the reference's order does not give each worker every {_nth(workers)}: the shards "
                f"were taken of all examples, and what came of each was filtered afterwards. {_CURE}"
            )
            yield Streams(text, [[epoch[epoch % workers == rest] for epoch in inputs.truth] for rest in first])
        text = (
            f"each worker read examples of its own in the reference's order ({counts}), not in turn and in no pieces, "
            f"as when each filters its own shard. {_CURE}"
        )
        parts = [[own[k] for own in inputs.read] for k in range(len(inputs.truth))]
        whole = [_scattered(truth, own, inputs.batch) for truth, own in zip(inputs.truth, parts, strict=True)]
        yield Checked(text, all(whole))


def _may_leave_out(inputs: Inputs) -> bool:
    """Whether something in what the run has iterated may leave examples out; a shuffle or an uneven end does not."""
    return not inputs.pipelines or any(made.kind in _LEAVE_OUT for each in inputs.pipelines for made in each.made)


def _nth(workers: int) -> str:
    return {2: "second", 3: "third"}.get(workers, f"{workers}th")


def _in_turn(inputs: Inputs) -> bool:
    """Whether the workers take turns at the reference's order, as without a filter, as far as each came."""
    import numpy as np

    workers = len(inputs.workers)
    return all(
        np.array_equal(part, truth[k::workers][: len(part)])
        for k, parts in enumerate(inputs.read)
        for part, truth in zip(parts, inputs.truth, strict=True)
    )


def _scattered(truth: Ints, parts: list[Ints], batch: int) -> bool:
    """Whether the parts are in the reference's order and share nothing, and change hands irregularly and often.

    Files are seldom smaller than half of a batch, on average. Each worker has read what it has up to some place, and
    not left anything out.
    """
    import numpy as np

    place = {key: at for at, key in enumerate(truth.tolist())}
    if len(place) < len(truth):
        return False
    owner = np.full(len(truth), -1)
    for number, part in enumerate(parts):
        places = np.array([place.get(key, -1) for key in part.tolist()], np.int64)
        if len(places) == 0 or places.min() < 0 or (np.diff(places) <= 0).any() or (owner[places] >= 0).any():
            return False
        owner[places] = number
    common = min(int(np.flatnonzero(owner == number)[-1]) for number in range(len(parts))) + 1
    if (owner[:common] < 0).any() or common < _EXAMPLES_MIN:
        return False
    turns = np.diff(np.flatnonzero(np.concatenate([[True], np.diff(owner[:common]) != 0, [True]])))
    return len(set(turns.tolist())) > 1 and 2 * float(turns.mean()) < batch


CAUSE: Cause = _FilteredAfterShard()
