"""The losses of a run and of its reference as lines of a drawing, between axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT = 620, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 12, 38
_DECADES_MIN = 2.0
"""Losses that are all positive and cover more decades than this are drawn on a logarithmic scale."""
_TICKS_MAX = 6


@dataclass(frozen=True)
class Tick:
    """A number at an axis, and where it stands along it."""

    at: float
    text: str


@dataclass(frozen=True)
class Curve:
    """A drawing: the points of each line, in pieces where values are missing, and the numbers at its axes.

    Attributes:
        width: of all of it.
        height: of all of it.
        left: where the axis of losses stands.
        bottom: where the axis of steps stands.
        observed: the run's line.
        expected: the reference's.
        losses: at the axis of losses.
        steps: at that of steps.
        logarithmic: whether losses are on such a scale.
    """

    width: int
    height: int
    left: int
    bottom: int
    observed: tuple[str, ...]
    expected: tuple[str, ...]
    losses: tuple[Tick, ...]
    steps: tuple[Tick, ...]
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
    base, span = scale(low), (scale(high) - scale(low)) or 1.0
    wide, bottom = max(1, steps[-1] - steps[0]), HEIGHT - _BOTTOM

    def x(step: float) -> float:
        return _LEFT + (step - steps[0]) / wide * (WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return bottom - (scale(value) - base) / span * (bottom - _TOP)

    def lines(line: Sequence[float | None]) -> tuple[str, ...]:
        pieces: list[list[str]] = [[]]
        for step, value in zip(steps, line, strict=True):
            if value is None:
                pieces.append([])
            else:
                pieces[-1].append(f"{x(step):.1f},{y(value):.1f}")
        return tuple(" ".join(piece) for piece in pieces if piece)

    round_losses = _decades(low, high) if logarithmic else _rounds(low, high)
    return Curve(
        WIDTH,
        HEIGHT,
        _LEFT,
        bottom,
        lines(course["observed"]),
        lines(course["expected"]),
        tuple(Tick(y(value), f"{value:.6g}") for value in round_losses),
        tuple(Tick(x(step), f"{step:g}") for step in _rounds(steps[0], steps[-1]) if step == int(step)),
        logarithmic,
    )


def _rounds(low: float, high: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten between two numbers, a few of them; one where both are the same."""
    if low == high:
        return [low]
    decade = 10.0 ** math.floor(math.log10((high - low) / _TICKS_MAX))
    apart = next(decade * by for by in (1, 2, 5, 10) if (high - low) / (decade * by) <= _TICKS_MAX)
    return [number * apart for number in range(math.ceil(low / apart), math.floor(high / apart) + 1)]


def _decades(low: float, high: float) -> list[float]:
    """Powers of ten between two positive numbers, a few of them."""
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    apart = -(-(last - first + 1) // _TICKS_MAX) or 1
    return [10.0**exponent for exponent in range(first, last + 1, apart)]
