"""Cause: the global batch grows with the number of replicas or workers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.judging.explain.causes.protocol import BATCHES, Cause, Inputs, Streams, pieces


@dataclass(frozen=True)
class _BatchTimesReplicas:
    id: str = "batch_times_replicas"
    priority: int = 19
    kinds: tuple[str, ...] = BATCHES
    what: str = "the global batch grows with the number of replicas or workers"

    def predictions(self, inputs: Inputs) -> Iterable[Streams]:
        workers = len(inputs.workers)
        for factor, what in {inputs.replicas: "replicas", workers: "workers"}.items():
            if factor < 2 or workers < 2:  # one worker reads in the reference's order whatever the batch
                continue
            size = factor * inputs.batch
            text = (
                f"step k consumed {size} examples in the reference's order, as many as {factor} of its batches of "
                f"{inputs.batch}: the batch is multiplied by the number of {what}. That is usual for speed, with a "
                "learning rate to match, but it is another training; keep global_batch the same under every strategy, "
                "and give each replica global_batch // strategy.num_replicas_in_sync."
            )
            streams = [[pieces(one, size, inputs.replicas, k, workers) for one in inputs.truth] for k in range(workers)]
            sized = sum(map(sum, inputs.sizes)) == min(size, len(inputs.truth[0]))
            yield Streams(text, streams, sized=sized)


CAUSE: Cause = _BatchTimesReplicas()
