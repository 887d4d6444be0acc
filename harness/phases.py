"""Who hears of what a verification does next, for people who wait for it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

_listeners: list[Callable[[str], None]] = []


@contextlib.contextmanager
def on_phase(listener: Callable[[str], None]) -> Iterator[None]:
    """Have each phase that begins in the meantime handed to `listener`, in a few words."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def phase(words: str) -> None:
    """Say what begins now."""
    for listener in _listeners:
        listener(words)
