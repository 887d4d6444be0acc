"""Cause: every worker, or every replica, reads the whole data set."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.judging.explain.causes.protocol import Cause, Inputs, Streams, shown

__all__ = ["CAUSE"]


@dataclass(frozen=True)
class _AutoShardOff:
    id: str = "auto_shard_off"
    priority: int = 20

    def predictions(self, inputs: Inputs) -> Iterable[Streams]:
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


CAUSE: Cause = _AutoShardOff()
