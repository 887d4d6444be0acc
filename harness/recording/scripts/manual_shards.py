"""Data that a script shards by the number of the worker, as the reference reads it: all shards together.

What W workers have in a step are the next batches of their shards. Where shards are taken of examples, those are the
next W batches of the whole, in another order; where they are taken of batches, they are so too. So the reference leaves
out sharding, and its batches are W times as large. Where that is not what happens, as after a shuffle of shards, the
examples of the run are others than the reference's, and nothing is judged.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.evidence.stand_ins import BY_HAND
from harness.recording.patches import patched
from harness.recording.scripts.stand_ins import StandIns

_WRAPPERS_MAX = 20
_MARK = "_lockstep_joined"


@contextlib.contextmanager
def join_manual_shards(stand_ins: StandIns) -> Iterator[None]:
    """Within this context `Dataset.shard` by the number of the worker gives what all workers have."""
    import tensorflow as tf

    script = stand_ins.script

    def shard_around(original: Callable[..., Any]) -> Callable[..., Any]:
        def shard(dataset: Any, num_shards: Any, index: Any, *args: Any, **options: Any) -> Any:
            count = tf.get_static_value(num_shards)
            alone = 1 in (count, script.workers)  # who is one worker has the shard that it takes
            if alone or not stand_ins.asked_by_script():
                return original(dataset, num_shards, index, *args, **options)
            if count != script.workers:
                raise stand_ins.cannot(
                    f"Dataset.shard into {count} shards, where there are {script.workers} workers: the reference "
                    "cannot know what the others read. Leave sharding to strategy.experimental_distribute_dataset, or "
                    "shard by the InputContext of strategy.distribute_datasets_from_function"
                )
            stand_ins.note(BY_HAND, f"all {count} shards")
            size = batch_size(dataset)
            whole = dataset.take(-1) if size is None else dataset.unbatch().batch(size * count)
            setattr(whole, _MARK, size is None)
            return whole

        return shard

    def batch_around(original: Callable[..., Any]) -> Callable[..., Any]:
        def batch(dataset: Any, size: Any, *args: Any, **options: Any) -> Any:
            open_ = any(getattr(each, _MARK, False) for each in inputs_of(dataset)) and batch_size(dataset) is None
            return original(dataset, size * script.workers if open_ else size, *args, **options)

        return batch

    with patched(tf.data.Dataset, "shard", shard_around), patched(tf.data.Dataset, "batch", batch_around):
        yield


def is_joined(dataset: Any) -> bool:
    """Whether it has what all workers have of data that is sharded by hand."""
    return any(hasattr(each, _MARK) for each in inputs_of(dataset))


def inputs_of(dataset: Any) -> Iterator[Any]:
    """A data set and those that it is made of, as far as they are one after another."""
    for _ in range(_WRAPPERS_MAX):
        yield dataset
        if (dataset := getattr(dataset, "_input_dataset", None)) is None:
            return


def batch_size(dataset: Any) -> int | None:
    """How large its batches are; None if it has none, or that is not known beforehand."""
    import tensorflow as tf

    for each in inputs_of(dataset):
        if (size := getattr(each, "_batch_size", None)) is not None:
            known = tf.get_static_value(size)
            return None if known is None else int(known)
    return None
