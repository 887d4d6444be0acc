"""What passes the seams in a step, and the step that is made of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.evidence.trace import Value
from harness.recording.witness._registry import VariableEntry
from harness.recording.witness._value_buffer import Span

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Event:
    """Something that passed a seam.

    Attributes:
        kind: of the seam.
        replica: its number over all workers.
        site: the place in the program: of two that a replica passed, the later one has the larger number.
        names: of the arrays.
        arrays: copies.
    """

    kind: str
    replica: int
    site: int
    names: tuple[Any, ...]
    arrays: tuple[np.ndarray[Any, Any], ...]


@dataclass
class StepSeen:
    """A step that was made: what passed the seams in it, the variables that it left, and what `fit` logged of it.

    `worker` is the one that ran it, if it is a closure. `span` is from the begin of its call to its end. `by_hand` says
    that the program had taken no gradients by then.
    """

    events: list[Event] = field(default_factory=list)
    variables: list[tuple[VariableEntry, Any]] = field(default_factory=list)
    loss: Value | None = None
    worker: int | None = None
    span: Span | None = None
    by_hand: bool = False


@dataclass
class InRun:
    """A call of `Strategy.run` that Python is in: its number within the outermost call, and the draws in it so far."""

    number: int
    draws: Counter[int] = field(default_factory=Counter)

    def draw(self, replica: int) -> int:
        """The number of the next random operation of a replica."""
        self.draws[replica] += 1
        return self.draws[replica] - 1
