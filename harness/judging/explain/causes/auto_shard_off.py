"""Cause: every worker, or every replica, reads the whole data set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.judging.explain.causes.protocol import Cause, Checked, Inputs, Ints, Prediction, Streams, shown


@dataclass(frozen=True)
class _AutoShardOff:
    id: str = "auto_shard_off"
    priority: int = 20
    kinds: tuple[str, ...] = ("AutoShardPolicy.OFF",)
    what: str = "every worker, or every replica, reads the whole data set"

    def predictions(self, inputs: Inputs) -> Iterable[Prediction]:
        for by, readers in inputs.readers:
            counts = [len(ids) for ids in inputs.whole(by)]
            text = (
                f"each of {readers} {by}s read the same pipeline from its start ({shown(inputs.truth[0])}): "
                f"{', '.join(map(str, counts))} ids of the reference's {sum(map(len, inputs.truth))}. This is what "
                "AutoShardPolicy.OFF does, and distribute_datasets_from_function without ds.shard. Use "
                "tf.data.experimental.AutoShardPolicy.DATA with strategy.experimental_distribute_dataset, or "
                "ds.shard(context.num_input_pipelines, context.input_pipeline_id)."
            )
            yield Streams(text, [inputs.truth] * readers, by)
            text = (
                f"each of {readers} {by}s read more of the data than a shard holds, in an order of its own: "
                f"{', '.join(map(str, counts))} ids, none twice before all were read once. Use "
                "ds.shard(context.num_input_pipelines, context.input_pipeline_id) before the shuffle, or "
                "strategy.experimental_distribute_dataset."
            )
            yield Checked(text, _read_all(inputs.whole(by), inputs.truth))


def _read_all(read: Sequence[Ints], truth: Sequence[Ints]) -> bool:
    """Whether readers share what is a shard's worth, and each goes on to others, with none again before it has all."""
    import numpy as np

    known = np.unique(np.concatenate(truth))
    shard = len(known) // len(read)
    for ids in read:
        first = ids[: len(known)]
        different = np.unique(first)
        if not np.isin(different, known).all() or len(different) < len(first) or len(first) <= shard:
            return False
    shards = [ids[:shard] for ids in read]
    return len(np.unique(np.concatenate(shards))) < sum(map(len, shards))


CAUSE: Cause = _AutoShardOff()
