"""What was asked for and not looked at, in a step with more operations than are looked at in one run.

Which values the way back from a wrong one needs is known only on the way. Where one was not looked at, the way goes on
as if nothing could be said of it, and the operation is asked for. Once nothing is asked for any more, the answer is the
one that follows from all values. A value that is right ends its way, and so a share of those that are asked for saves
most of what is behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.evidence.watched_step import WatchedStep


@dataclass(frozen=True)
class WatchRequest:
    """Numbers of operations: of each client, of the reference, and of each rerun with noise."""

    clients: tuple[set[int], ...]
    reference: set[int]
    noisy: tuple[set[int], ...]

    @classmethod
    def none(cls, clients: Sequence[WatchedStep], noisy: Sequence[WatchedStep]) -> WatchRequest:
        """Nothing yet."""
        return cls(tuple(set() for _ in clients), set(), tuple(set() for _ in noisy))

    def __bool__(self) -> bool:
        return any(self.clients) or bool(self.reference) or any(self.noisy)
