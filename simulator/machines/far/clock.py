"""What the clock of another machine says when this one's says something: an offset, and how far that may be wrong."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

# What two clocks may part by in a second: quartz is good to 50 us, at either end.
DRIFT = 1e-4
_EXCHANGES_MIN = 10
# A busy machine answers late for a while; one that is far away always does.
_ERROR_WANTED = 1e-3
_SECONDS_MAX = 0.5


@dataclass(frozen=True)
class MachineClock:
    """The monotonic clock of a machine.

    Attributes:
        offset: what it says more than this process's, in seconds.
        error: by how much that may be wrong at most, as of when it was measured.
        measured: when that was, in seconds of this process's.
    """

    offset: float
    error: float
    measured: float = 0.0

    def here(self, at: float) -> float:
        """This process's time when that one's was `at`."""
        return at - self.offset

    def within(self, at: float) -> float:
        """By how much a time of that clock may be wrong at this one's `at`: clocks drift."""
        return self.error + DRIFT * max(0.0, at - self.measured)


HERE = MachineClock(0.0, 0.0)


def better(known: MachineClock, again: MachineClock, at: float) -> MachineClock:
    """Of what was known earlier and what has been measured again, that which may be wrong by less at this time."""
    return min(again, known, key=lambda clock: clock.within(at))


def measured(ask: Callable[[], float], now: Callable[[], float] = time.monotonic) -> MachineClock:
    """The clock that `ask()` reads, by the exchange that took least.

    The answer was given between the question and its arrival, so the middle is wrong by half of the time between at
    most (Cristian, Probabilistic clock synchronization, 1989). While that is much, it is asked again.
    """
    began, exchanges, best = now(), 0, None
    while best is None or exchanges < _EXCHANGES_MIN or (best.error > _ERROR_WANTED and now() - began < _SECONDS_MAX):
        asked = now()
        there = ask()
        heard = now()
        exchanges += 1
        if best is None or (heard - asked) / 2 < best.error:
            best = MachineClock(there - (asked + heard) / 2, (heard - asked) / 2, heard)
    return best
