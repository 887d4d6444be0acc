"""How the replicas of a process that follows a run stand for those of the run."""

from __future__ import annotations

from typing import Literal

import msgspec


class Standing(msgspec.Struct, frozen=True):
    """What each of them has of what the run's had.

    Attributes:
        replicas: of the process. One has what all replicas of the run had together; as many as the run's have each what
            its own had, and stand each for a whole; see `harness.recording.steps.mean_replicas`.
        repeats: whether each of several has that as often as there are replicas, and not once. One that does not has
            only what the first replica had.
        averages: whether several are told that there is one, and what they add up is a mean. Else each stands for its
            own of the run's, and computes as that did.
        common: whether several begin with the same where each of the run's had a state of its own: with its mean.
        ranks: whether an order that replicas draw gives each of their rows a rank among those of all, as a program
            means it that takes the first half of an order. Else the order is one of rows, each replica's after those
            before it.
        own: what numbers of no example that each replica draws for itself are to one: those of the `first`, or the
            `sum` of normal ones, with the spread of one draw. Empty if nobody knows.
        copies: how often one that has what all of the run had is given each replica's. What is a mean over examples is
            the same however often it has them all.
    """

    replicas: int = 1
    repeats: bool = True
    averages: bool = True
    common: bool = False
    ranks: bool = False
    own: Literal["", "sum", "first"] = ""
    copies: int = 1

    @property
    def are_wholes(self) -> bool:
        """Whether there are several, of which each stands for a whole."""
        return self.replicas > 1 and self.averages

    @property
    def times(self) -> int:
        """How often each replica has what its own had."""
        return self.replicas if self.repeats else 1

    @property
    def read(self) -> int | None:
        """Of how many replicas of the run one replica has what they had; None for all."""
        return None if self.replicas > 1 or self.repeats else 1

    def strategy(self, single: str) -> str:
        """The name of the strategy of a process with these replicas; `single` is that of one with a single one."""
        return single if self.replicas == 1 else f"mirrored-{self.replicas}"


OWN_DRAWS: tuple[Literal["sum", "first"], ...] = ("sum", "first")
"""What may be made of `Standing.own`."""
FOR_ALL = Standing()
"""One replica stands for all of the run's."""
