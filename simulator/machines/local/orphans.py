"""What has lost its parents and its mark: it ends with the last of the runs that go on in this process.

A daemon whose environment was emptied says nowhere which run it is of. An adopter of the forkserver has it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable


class _Orphans:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        # After a fork, what was adopted is the parent's.
        self._owner = os.getpid()
        self._open = 0
        self._adopters: list[Callable[[], list[int]]] = []

    def adopt(self, end: Callable[[], list[int]]) -> None:
        """From now on somebody adopts them; `end` kills those that there are, and says which."""
        with self._lock:
            self._adopters.append(end)

    def begin(self) -> None:
        """A run begins."""
        with self._lock:
            self._open += 1

    def end(self) -> list[int]:
        """A run is over, and so are its processes; the process ids of what was killed, if it was the last one."""
        with self._lock:
            self._open -= 1
            if self._open or self._owner != os.getpid():
                return []
            return [pid for end in self._adopters for pid in end()]


orphans = _Orphans()
