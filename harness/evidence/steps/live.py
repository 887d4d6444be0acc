"""The evidence of a run that goes on: what a process that follows it knows beforehand, and what it waits for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

_POLL_SECONDS = 0.003


class LiveProcesses(msgspec.Struct, frozen=True):
    """What is known of processes that still run.

    Attributes:
        over: a file that is there once they have ended.
        replicas: how many they have together.
        local_replicas: how many of these the first process has.
        seconds: how long one of their steps may take.
    """

    over: str
    replicas: int
    local_replicas: int
    seconds: float

    @property
    def is_over(self) -> bool:
        """Whether they have ended."""
        return Path(self.over).exists()

    def wait(self, there: Callable[[], bool], what: str) -> None:
        """Wait until something is there, or they have ended.

        Args:
            there: whether it is.
            what: names it.

        Raises:
            TimeoutError: neither comes to be.
        """
        deadline, never = time.monotonic() + self.seconds, threading.Event()
        while not (there() or self.is_over):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} of the run that is followed was not there after {self.seconds:g} s")
            never.wait(_POLL_SECONDS)
