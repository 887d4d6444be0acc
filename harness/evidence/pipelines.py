"""What a program's input pipelines are made of, by its own lines."""

from __future__ import annotations

from typing import Literal

import msgspec


class Transformation(msgspec.Struct, frozen=True):
    """One data set of a pipeline: what TensorFlow calls it, `Shard` or `Batch`, and the program's line that made it.

    One that changes how TensorFlow shards is called after that, `AutoShardPolicy.OFF`.

    The line is `train.py:12`, its file as from where the program was started.
    """

    kind: str
    line: str


class Pipeline(msgspec.Struct, frozen=True):
    """A data set that the program has iterated.

    Attributes:
        line: where it was given to the strategy, or iterated by itself.
        distributed: how the strategy was given it: as a `dataset`, or by a `function`; None if it was not.
        made: its transformations, the last one first.
        step: the number of the step that was being made when it was first iterated, from 1.
    """

    line: str
    distributed: Literal["dataset", "function"] | None
    made: tuple[Transformation, ...]
    step: int = 1
