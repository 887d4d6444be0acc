"""Where the runs of a search are, as far as that decides which faults they can have."""

from __future__ import annotations

from dataclasses import dataclass

from harness.subject.strategies import StrategyCase
from simulator.machines.engines.selection import engine_of


@dataclass(frozen=True)
class SearchVenue:
    """That.

    Attributes:
        machines: how many machines its tasks are on; 0 for this one.
        lost_max: how many of them a run may lose and go on.
    """

    machines: int = 0
    lost_max: int = 0


HERE = SearchVenue()


def room_of(case: StrategyCase, restart_policy: str | None) -> SearchVenue:
    """Where the runs of this strategy are.

    Args:
        case: the strategy.
        restart_policy: what a failure restarts; None for the default.

    Raises:
        UsageError: what is asked of machines is not understood.
    """
    if case.over is None:
        return HERE
    engine = engine_of(**case.over.options)
    assert engine is not None
    return SearchVenue(len(engine.names), 0 if restart_policy == "none" else len(engine.names) - 1)
