"""What a program has told `tf.nn.compute_average_loss` of its global batch."""

from __future__ import annotations

import msgspec


class Average(msgspec.Struct, frozen=True):
    """One line that averages losses, by a number that Python knows.

    Attributes:
        line: of the program, `train.py:12`.
        batch: the `global_batch_size` that it gives.
        step: the number of the step that was being made when it did so first, from 1, among those that were seen.
    """

    line: str
    batch: int
    step: int
