"""What replicas have each for itself after a step, as variables that can be compared one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.evidence.arrays import Array, wide
from harness.evidence.observed import unique_names
from harness.evidence.trace import SeenVariable

OWN = "own"
"""The kind of such a `SeenVariable`."""

Way = Literal["sum", "mean", "first"]
"""What the copies of a variable may be of what one device has: this is their sum, their mean, or the first of them."""
WAYS: tuple[Way, ...] = ("sum", "mean", "first")


@dataclass(frozen=True)
class OwnState:
    """A variable of which each replica has a copy.

    Attributes:
        name: what Keras or TensorFlow calls it.
        how: as of `HeldVariable`.
        copies: those of all replicas, in their order.
    """

    name: str
    how: str
    copies: tuple[Array, ...]

    def of_replica(self, number: int) -> str:
        """What the copy of a replica is called among variables."""
        return f"{self.name} of replica {number}"

    @property
    def of_all(self) -> str:
        """What that is called which replicas have together."""
        return f"{self.name} of all replicas"

    @property
    def each(self) -> Iterator[SeenVariable]:
        """The copy of each replica."""
        for number, copy in enumerate(self.copies):
            yield SeenVariable(self.of_replica(number), OWN, (copy,))

    @property
    def of_reference(self) -> Iterator[SeenVariable]:
        """As who follows a run has them: of one replica what one device has."""
        yield from self.each if len(self.copies) > 1 else self.all("first")

    @property
    def ways(self) -> tuple[Way, ...]:
        """What the copies may be of what one device has, as far as the program says."""
        return tuple(way for way in WAYS if way == self.how) or WAYS

    def all(self, way: Way) -> Iterator[SeenVariable]:
        """What one device has, if the copies are that of it."""
        import numpy as np

        if way in self.ways or len(self.copies) == 1:
            first, *others = (copy.numpy() for copy in self.copies)
            every = [wide(copy) for copy in (first, *others)]
            whole = every[0] if way == "first" else np.sum(every, axis=0) / (1 if way == "sum" else len(every))
            yield SeenVariable(self.of_all, OWN, (Array.of(whole.astype(first.dtype)),))

    def turned(self, by: int) -> OwnState:
        """The same if each replica were another one, so many places on."""
        return OwnState(self.name, self.how, (*self.copies[-by:], *self.copies[:-by]))


def joined(of_tasks: Sequence[Sequence[SeenVariable]]) -> tuple[OwnState, ...]:
    """Those of all replicas, from what each task has of its own, each by another name."""
    names = unique_names([each.name for each in of_tasks[0]])
    copies = [tuple(copy for part in parts for copy in part.copies) for parts in zip(*of_tasks, strict=False)]
    return tuple(
        OwnState(name, first.kind, held) for name, first, held in zip(names, of_tasks[0], copies, strict=False)
    )
