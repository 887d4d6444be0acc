"""At which lines a program restores what it has saved, before its first step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from harness.recording.watch.places import Places
from harness.recording.witness.protocol import WitnessState
from simulator.agent.saves.saves import listen


@contextlib.contextmanager
def active(gathered: WitnessState) -> Iterator[None]:
    """Note in `gathered.noted` where something is restored in this context."""
    places, is_on = Places(), True

    def ended(path: Any, restores: bool) -> None:
        if is_on and restores and path is not None and gathered.number == 1 and not gathered.has_step:
            with gathered.looking("lines that restore"):
                if (line := places.line()) is not None:
                    gathered.noted.restored.setdefault(line)
                gathered.noted.assigned.clear()  # what was given before is no more what the first step begins with

    listen(ended)
    try:
        yield
    finally:
        is_on = False
