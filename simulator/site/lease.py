"""The site's side of the lease: it asks every second, and ends its tasks when nobody has granted it for too long.

A machine that cannot be reached must not go on training while others start its tasks again. No scheduler sees to that:
one that has lost a node may leave its processes at work for minutes. The time of a lease runs from when it was *asked*
for, so that it is over here before the run, which counts from when it has heard of that, takes it for over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from simulator.wire.site import Beat, FromSite

__all__ = ["Lease"]


class Lease:
    """Asks until `close`.

    Args:
        say: sends a message.
        expired: called once when it is over, in a thread of its own.
        every: seconds between two questions.
        seconds: for how long it is good.
    """

    def __init__(
        self, say: Callable[[FromSite], None], expired: Callable[[], None], *, every: float, seconds: float
    ) -> None:
        self._say = say
        self._expired = expired
        self._every = every
        self._seconds = seconds
        self._lock = threading.Lock()
        self._asked: dict[int, float] = {}
        self._until = time.monotonic() + seconds
        self._closed = threading.Event()
        threading.Thread(target=self._keep, name="lockstep-lease", daemon=True).start()

    def granted(self, number: int) -> None:
        """The question of this number was heard."""
        with self._lock:
            if (asked := self._asked.get(number)) is not None:
                self._until = max(self._until, asked + self._seconds)
                self._asked = {each: at for each, at in self._asked.items() if each > number}

    def close(self) -> None:
        """Nobody is to be ended any more."""
        self._closed.set()

    def _keep(self) -> None:
        number = 0
        while not self._closed.is_set():
            now = time.monotonic()
            if now >= self._until:
                self._expired()
                return
            number += 1
            with self._lock:
                self._asked[number] = now
            self._say(Beat(number))
            self._closed.wait(min(self._every, max(0.0, self._until - time.monotonic())))
