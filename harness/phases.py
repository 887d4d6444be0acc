"""Who hears of what a verification does next, for people who wait for it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

_listeners: list[Callable[[str], None]] = []
_is_part: list[bool] = []


@contextlib.contextmanager
def on_phase(listener: Callable[[str], None]) -> Iterator[None]:
    """Have each phase that begins in the meantime handed to `listener`, in a few words."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def phase(words: str) -> None:
    """Say what begins now, unless it is part of a single phase."""
    for listener in () if _is_part else _listeners:
        listener(words)


@contextlib.contextmanager
def single_phase(words: str) -> Iterator[None]:
    """Say what begins now, and in this context nothing of its parts."""
    phase(words)
    _is_part.append(True)
    try:
        yield
    finally:
        _is_part.pop()
