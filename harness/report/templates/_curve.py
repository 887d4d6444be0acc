"""The losses of a run and of its reference as lines of a drawing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Curve", "curve"]

WIDTH, HEIGHT = 560, 160
_MARGIN = 6
_DECADES_MIN = 2.0
"""Losses that are all positive and cover more decades than this are drawn on a logarithmic scale."""


@dataclass(frozen=True)
class Curve:
    """A drawing: the points of each line, in pieces where values are missing, and what stands at its edges."""

    width: int
    height: int
    observed: tuple[str, ...]
    expected: tuple[str, ...]
    top: str
    bottom: str
    first: int
    last: int
    logarithmic: bool


def curve(course: Mapping[str, Any] | None) -> Curve | None:
    """Draw a `course` of a verdict in its JSON form; None where there are no two steps to connect."""
    if course is None or len(course["steps"]) < 2:
        return None
    steps: Sequence[int] = course["steps"]
    values = [value for line in ("observed", "expected") for value in course[line] if value is not None]
    if not values:
        return None
    low, high = min(values), max(values)
    logarithmic = low > 0 and math.log10(high / low) > _DECADES_MIN
    scale = math.log10 if logarithmic else float
    bottom, top = scale(low), scale(high)
    span, wide = (top - bottom) or 1.0, max(1, steps[-1] - steps[0])

    def lines(line: Sequence[float | None]) -> tuple[str, ...]:
        pieces: list[list[str]] = [[]]
        for step, value in zip(steps, line, strict=True):
            if value is None:
                pieces.append([])
                continue
            x = _MARGIN + (step - steps[0]) / wide * (WIDTH - 2 * _MARGIN)
            y = HEIGHT - _MARGIN - (scale(value) - bottom) / span * (HEIGHT - 2 * _MARGIN)
            pieces[-1].append(f"{x:.1f},{y:.1f}")
        return tuple(" ".join(piece) for piece in pieces if piece)

    return Curve(
        WIDTH,
        HEIGHT,
        lines(course["observed"]),
        lines(course["expected"]),
        f"{high:.4g}",
        f"{low:.4g}",
        steps[0],
        steps[-1],
        logarithmic,
    )
