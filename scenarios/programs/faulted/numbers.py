"""The numbers of the synchronous training in exact arithmetic, without TensorFlow: the truth of every step."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

STEPS = 12
BATCH = 4
# A learning rate and a momentum that are powers of two: no product below needs more bits than a float64 has.
LEARNING_RATE = Fraction(1, 4)
MOMENTUM = Fraction(1, 2)
START = (4, -8, 2)

# The summed loss over the global batch, and weights and velocity after the step.
Step = tuple[float, tuple[float, ...], tuple[float, ...]]


def features(step: int) -> list[list[int]]:
    """The global batch of a step, from 1: examples of small integers, different in each step."""
    return [[(step * 7 + row * 3 + column * 5) % 11 % 2 for column in range(len(START))] for row in range(BATCH)]


def targets(step: int) -> list[int]:
    """What the examples of this step should give."""
    return [(step * 3 + row) % 5 - 2 for row in range(BATCH)]


@cache
def truth() -> tuple[Step, ...]:
    """Every step of gradient descent with momentum on half the squared error, summed over the batch.

    Raises:
        ArithmeticError: a value has no exact float64, so that bits would be compared that depend on rounding.
    """
    weights, velocity = [Fraction(value) for value in START], [Fraction(0)] * len(START)
    zero = Fraction(0)
    found = []
    for step in range(1, STEPS + 1):
        rows, wanted = features(step), targets(step)
        errors = [
            sum((x * w for x, w in zip(row, weights, strict=True)), zero) - y
            for row, y in zip(rows, wanted, strict=True)
        ]
        loss = sum((error * error for error in errors), zero) / 2
        gradient = [
            sum((error * row[column] for error, row in zip(errors, rows, strict=True)), zero)
            for column in range(len(START))
        ]
        velocity = [MOMENTUM * v + g for v, g in zip(velocity, gradient, strict=True)]
        weights = [w - LEARNING_RATE * v for w, v in zip(weights, velocity, strict=True)]
        found.append((_exact(loss), tuple(map(_exact, weights)), tuple(map(_exact, velocity))))
    return tuple(found)


def _exact(value: Fraction) -> float:
    if Fraction(float(value)) != value:
        raise ArithmeticError(f"{value} is no float64")
    return float(value)
