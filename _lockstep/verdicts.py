"""Who hears of verdicts, and of what else says that hardware was there.

Here, so that the pytest plugin can listen without importing anything that judges.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.judging.verdict import Verdict

DEVICE_PROPERTY = "lockstep_computed_on"
"""Of the report of a test that reaches no verdict and has passed on hardware that it wanted: what, as tasks say it."""

_listeners: list[Callable[[Verdict], None]] = []


@contextlib.contextmanager
def on_verdict(listener: Callable[[Verdict], None]) -> Iterator[None]:
    """Have every verdict that is reached in the meantime handed to `listener`."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def announce(verdict: Verdict) -> None:
    """Hand a verdict to all who listen."""
    for listener in _listeners:
        listener(verdict)
