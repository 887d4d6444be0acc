"""The line of a mistake where a program divides gradients by the number of replicas after their sum."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from harness.judging.culprit import Culprit, find_culprit
from harness.judging.culprit.kinds import DIVISION, PARTS
from tests.harness._watched import Steps, watched

_X = np.random.default_rng(3).normal(size=(8, 4)).astype(np.float32)
_MEAN, _SUM, _USE, _DIVIDED, _SECOND = range(3, 8)


def _step(steps: Steps, mistake: str) -> None:
    """A mean of each replica's examples, their sum, and two variables that get it divided by the replicas."""
    gradient = steps.each("Mean", _MEAN, lambda x: x.mean(axis=0), steps.batch, name="gradient_tape/Mean")
    if mistake == "clip before":
        gradient = steps.each("Minimum", _USE, lambda x: np.minimum(x, 0), gradient)
    total = steps.summed(_SUM, gradient)
    of_each = total[: len(steps.batch)]
    used = of_each
    if mistake == "clip":
        used = steps.each("Minimum", _USE, lambda x: np.minimum(x, 0.1), of_each)
    elif mistake == "add":
        used = steps.each("AddV2", _USE, lambda x: x + np.arange(4, dtype=np.float32), of_each)
    count = steps.constant(_DIVIDED, steps.replicas)
    quotient = used if mistake == "never" else steps.each("RealDiv", _DIVIDED, lambda x, n: x / n, used, count)
    steps.assign(_DIVIDED, "first", quotient)
    second = quotient
    if mistake == "square":
        square = steps.each("Square", _SECOND, lambda x: x**2, of_each)
        second = steps.each("RealDiv", _SECOND, lambda x, n: x / n, square, count)
    elif mistake == "second":
        second = of_each
    steps.assign(_SECOND, "second", second)


@pytest.mark.parametrize(
    ("mistake", "line", "kind"),
    [
        ("", None, None),
        ("never", _MEAN, None),
        ("clip", _USE, DIVISION),
        ("add", _USE, DIVISION),
        ("square", _SECOND, DIVISION),
        ("second", _SECOND, DIVISION),
        ("clip before", _USE, PARTS),
    ],
)
def test_who_uses_a_sum_before_the_division_is_named_and_not_the_mean(
    mistake: str, line: int | None, kind: object
) -> None:
    """Where nothing divides it, the mean is named."""
    run, reference = watched(functools.partial(_step, mistake=mistake), _X, _X[:4], _X[4:])
    found = find_culprit([run], reference, [])
    assert (found.line if isinstance(found, Culprit) else None) == line, found
    if isinstance(found, Culprit) and kind is not None:
        assert found.kind == getattr(kind, "code", None), found


@pytest.mark.parametrize(("mistake", "then"), [("add", "only after this"), ("square", "uses them undivided")])
def test_the_line_that_divides_is_told(mistake: str, then: str) -> None:
    """It may come later on the way of what is wrong, or stand on another."""
    run, reference = watched(functools.partial(_step, mistake=mistake), _X, _X[:4], _X[4:])
    found = find_culprit([run], reference, [])
    assert isinstance(found, Culprit)
    assert f"train.py:{_DIVIDED} divides" in found.relation
    assert found.relation.endswith(then)
