"""What a program has told `tf.nn.compute_average_loss` of its global batch."""

from __future__ import annotations

import msgspec

__all__ = ["Average"]


class Average(msgspec.Struct, frozen=True):
    """One line that averages losses, by a number that Python knows.

    Attributes:
        line: of the program, `train.py:12`.
        batch: the `global_batch_size` that it gives.
        losses: how many losses the replicas of this process averaged so, each in one call, in the step `step`.
        step: counts from 1, among those that were seen.
    """

    line: str
    batch: int
    losses: int
    step: int
