"""The run's side of the lease: whether a machine is heard, and when it is sure that its tasks are dead.

The site counts its lease from when it asked for it, this side from when it has heard that question: later. What a
scheduler says earlier, or the end of the stream, names the machine; it never makes its tasks dead any sooner.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from simulator.threads import Worker


@dataclass(frozen=True)
class Lease:
    """Times of the lease, in seconds.

    Attributes:
        every: between two questions of a site.
        silent: without any of them a machine is suspected.
        seconds: without a grant the site ends its tasks.
        margin: which it has for that, before the machine is taken for lost.
    """

    every: float = 1.0
    silent: float = 3.0
    seconds: float = 10.0
    margin: float = 1.0


class LeaseWatch:
    """Waits for beats, from the first one to `close`."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        # Not before the site is there: an allocation, or a pod, may take its time.
        self._heard = math.inf
        self._changed = threading.Condition()
        self._over = False
        self._given_up = False
        self._why = ""
        self._lost: Callable[[str, float], None] = lambda why, at: None
        self._suspected: Callable[[float], None] = lambda at: None
        self._worker = Worker("lease", self._wait)

    def begin(self, lost: Callable[[str, float], None], suspected: Callable[[float], None] = lambda at: None) -> None:
        """Have `lost` called once, with why and since when; and `suspected` at each silence, with since when."""
        self._lost = lost
        self._suspected = suspected
        self._worker.start()

    @property
    def silent(self) -> bool:
        """Whether it has not been heard for a while: what has become of it is open."""
        return not (self._over or self._given_up) and time.monotonic() - self._heard > self._lease.silent

    @property
    def dead_at(self) -> float:
        """From when on the site has ended its tasks, if it is not heard any more."""
        return self._heard + self._lease.seconds + self._lease.margin

    def heard(self) -> bool:
        """A beat has come; whether the lease may be granted: not to a machine that has been given up."""
        with self._changed:
            first, self._heard = math.isinf(self._heard), time.monotonic()
            if first:
                self._changed.notify_all()
            return not self._given_up

    def ended(self, why: str) -> None:
        """Nothing can come any more."""
        with self._changed:
            self._why = why
            self._changed.notify_all()

    def close(self) -> None:
        """Nobody is interested any more."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
        self._worker.join()

    def _wait(self) -> None:
        fence = self._lease.seconds + self._lease.margin
        told = math.inf
        with self._changed:
            while not self._over and not self._why and (left := self._heard + fence - time.monotonic()) > 0:
                if self.silent and told != self._heard:
                    told = self._heard
                    self._suspected(told)
                left = min(left, self._heard + self._lease.silent - time.monotonic()) if told != self._heard else left
                self._changed.wait(None if math.isinf(left) else max(0.0, left))
            if self._over:
                return
            self._given_up = True
            why, at = self._why, time.monotonic()
            if not why:
                why, at = f"nothing was heard of it for {fence:g} s", self._heard
        self._lost(why, at)
