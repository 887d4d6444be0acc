"""Cause: the data set is repeated before it is sharded, so that a worker's shard shifts from epoch to epoch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.judging.explain.causes.protocol import Cause, Inputs, Streams


@dataclass(frozen=True)
class _RepeatBeforeShard:
    id: str = "repeat_before_shard"
    priority: int = 22
    kinds: tuple[str, ...] = ("Repeat",)
    what: str = "the data set is repeated before it is sharded, so that a worker's shard shifts from epoch to epoch"

    def predictions(self, inputs: Inputs) -> Iterable[Streams]:
        import numpy as np

        examples, epochs = len(inputs.truth[0]), len(inputs.truth)
        for by, readers in inputs.readers:
            # Without a remainder every epoch begins with the same reader, and repeating first changes nothing.
            if epochs < 2 or examples % readers == 0:
                continue
            run = np.concatenate(inputs.truth)
            text = (
                f"{by} k consumed every {readers}th of the {epochs} epochs put one after another, and {examples} "
                f"examples are no multiple of {readers}: from the second epoch on each {by} reads what another read "
                f"before, and a batch holds examples of two epochs. Shard first: ds.shard(...).shuffle(...).repeat()."
            )
            yield Streams(text, [[run[k::readers]] for k in range(readers)], by)


CAUSE: Cause = _RepeatBeforeShard()
