"""What the counts of a client's work say of how that was divided."""

from __future__ import annotations

from harness.evidence.trace import RunTrace
from harness.subject.strategies import kind_of


def placed_by_hand(run: RunTrace) -> tuple[str, ...]:
    """The devices between which a program divides its work itself, where no replica runs; none of any other program."""
    if (kind := kind_of(run.header.strategy)) is not None and kind.on_mesh:
        return ()
    works = [client.counters.work for client in run.clients if client.counters.work is not None]
    if any(work.entered or len(work.placed) < 2 for work in works):
        return ()
    return tuple(dict.fromkeys(device for work in works for device in work.placed))
