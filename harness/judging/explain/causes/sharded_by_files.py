"""Cause: every worker reads files of its own, so that a step holds other examples than on one device."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.judging.explain.causes.protocol import Cause, Checked, Inputs, Ints


@dataclass(frozen=True)
class _ShardedByFiles:
    id: str = "sharded_by_files"
    priority: int = 28
    kinds: tuple[str, ...] = ("AutoShardPolicy.FILE",)
    what: str = "every worker reads files of its own, so that a step holds other examples than on one device"

    def predictions(self, inputs: Inputs) -> Iterable[Checked]:
        workers = len(inputs.workers)
        if workers < 2 or len(inputs.read[0]) != len(inputs.truth):
            return
        runs = [_files(truth, [parts[k] for parts in inputs.read]) for k, truth in enumerate(inputs.truth)]
        lengths = runs[0]
        if lengths is None or any(other is None for other in runs):
            return
        text = (
            f"the {workers} workers took turns at {len(lengths)} consecutive pieces of the reference's order, of "
            f"{', '.join(map(str, lengths[:8]))}{', ...' if len(lengths) > 8 else ''} examples, as when each reads one "
            f"file in {workers}. Over an epoch each example was consumed once; the steps differ from those on one "
            "device, and with them the numbers. That is how AutoShardPolicy.FILE and AUTO split files. To train with "
            "the same batches everywhere use tf.data.experimental.AutoShardPolicy.DATA."
        )
        if set(lengths[:-1]) == {inputs.batch}:
            text += " (Whole batches that are dealt out, ds.batch(...).shard(...), and divided later look the same.)"
        # Pieces no larger than a batch may be slices of batches, unless each worker read its own in order.
        ordered = all(_in_order(parts[k], truth) for parts in inputs.read for k, truth in enumerate(inputs.truth))
        whole = (
            len(lengths) >= workers and sum(lengths) >= 2 * len(lengths) and (ordered or min(lengths) > inputs.batch)
        )
        # Each worker takes its part of the global batch from its files; whoever takes more made another mistake.
        part = inputs.local * -(-inputs.batch // inputs.replicas)
        yield Checked(text, whole and all(sum(sizes) <= part for sizes in inputs.sizes))


def _in_order(part: Ints, truth: Ints) -> bool:
    """Whether a part keeps the reference's order."""
    import numpy as np

    order = np.argsort(truth)
    places = order[np.searchsorted(truth[order], part)]
    return bool(np.all(np.diff(places) > 0))


def _files(truth: Ints, parts: list[Ints]) -> list[int] | None:
    """Lengths of the pieces of the reference's order that one worker after another read; None if it was not so."""
    import numpy as np

    read = np.concatenate(parts)
    if len(read) != len(truth) or len(np.unique(truth)) < len(truth):
        return None
    owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    order, wanted = np.argsort(read), np.argsort(truth)
    if not np.array_equal(read[order], truth[wanted]):
        return None
    owner = np.empty(len(truth), np.int64)
    owner[wanted] = owners[order]
    cuts = np.concatenate([[0], np.flatnonzero(np.diff(owner)) + 1, [len(owner)]])
    turns = owner[cuts[:-1]]
    return np.diff(cuts).tolist() if np.array_equal(turns, np.arange(len(turns)) % len(parts)) else None


CAUSE: Cause = _ShardedByFiles()
