"""The rules on one directed link and what they add up to."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from simulator.wire.network import Conditions


@dataclass
class Rules:
    """Conditions in force, by the number of their rule; of two that say something about the same, the later counts."""

    _active: dict[int, tuple[Conditions, float]] = field(default_factory=dict)

    def put(self, rule: int, conditions: Conditions) -> None:
        """Put a rule in force from now on."""
        self._active[rule] = (conditions, time.monotonic())

    def drop(self, rule: int) -> bool:
        """Forget a rule; whether there was one."""
        return self._active.pop(rule, None) is not None

    def clear(self) -> None:
        """Forget all rules."""
        self._active.clear()

    def last(self, name: str) -> Any:
        """What the latest rule that mentions this condition says; `None` if none does."""
        said = [getattr(conditions, name) for _, (conditions, _) in sorted(self._active.items())]
        return next((value for value in reversed(said) if value is not None), None)

    def shape(self) -> tuple[float, str]:
        """The jitter in seconds and its kind, which belong together."""
        for _, (conditions, _) in sorted(self._active.items(), reverse=True):
            if conditions.jitter is not None:
                return conditions.jitter, conditions.jitter_kind or "uniform"
        return 0.0, "uniform"

    def lasts(self, name: str) -> bool:
        """Whether a rule asks for this now."""
        return any(end > time.monotonic() for end in self._ends(name))

    def next_end(self, names: tuple[str, ...]) -> float | None:
        """When the earliest of these conditions ends that is in force now, in seconds of CLOCK_MONOTONIC."""
        now = time.monotonic()
        ends = [end for name in names for end in self._ends(name) if now < end < float("inf")]
        return min(ends, default=None)

    def _ends(self, name: str) -> list[float]:
        return [
            since + seconds for conditions, since in self._active.values() if (seconds := getattr(conditions, name))
        ]
