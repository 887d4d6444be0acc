"""Where rounding, or a multiple, hides what is wrong: no operation is blamed that cannot be, or is least likely."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from harness.judging.culprit import Culprit, NoCulprit, find_culprit
from tests.harness._watched import Steps, watched

_X = np.random.default_rng(3).normal(size=(8, 4)).astype(np.float32)


def _off_by_itself(steps: Steps, kind: str) -> None:
    """An operation of which both operands are right, and what it gives in the run is not."""
    off = np.float32(1.1 if steps.replicas > 1 else 1.0)
    w = steps.read(2, "w", [np.float32(0.5)] * steps.replicas)
    rows = steps.each(kind, 3, lambda x, w: off * x * w, steps.batch, w)
    parts = steps.each("Sum", 4, lambda x: np.float32(x.sum()), rows)
    steps.assign(6, "w", steps.summed(5, parts))


@pytest.mark.parametrize(("kind", "named"), [("Mul", False), ("Cumsum", True)])
def test_what_follows_by_elements_is_not_blamed(kind: str, named: bool) -> None:
    """A product of what is right is right: then rounding hides what is not, and a line would be a guess."""
    run, reference = watched(partial(_off_by_itself, kind=kind), _X, _X[:4], _X[4:])
    found = find_culprit([run], reference, [])
    assert isinstance(found, Culprit if named else NoCulprit)
    if isinstance(found, Culprit):
        assert found.line == 3


def _pairs(steps: Steps) -> None:
    """Differences between all examples, of which each replica has those of its own."""
    w = steps.read(2, "w", [np.float32(0.5)] * steps.replicas)
    scores = steps.each("Mul", 3, lambda x, w: x[:, 0] * w, steps.batch, w)
    down, across = (steps.each("Reshape", line, each, scores) for line, each in ((4, _down), (5, _across)))
    parts = steps.each("Sum", 7, lambda x: np.float32(np.abs(x).sum()), steps.each("Sub", 6, np.subtract, down, across))
    steps.assign(9, "w", steps.summed(8, parts))


def _down(x: np.ndarray) -> np.ndarray:
    return x[:, None]


def _across(x: np.ndarray) -> np.ndarray:
    return x[None, :]


def test_pairs_of_examples_are() -> None:
    """Both operands are split, but along axes of their own."""
    run, reference = watched(_pairs, _X, _X[:4], _X[4:])
    found = find_culprit([run], reference, [])
    assert isinstance(found, Culprit)
    assert found.line == 6


def _halved(steps: Steps, noise: float = 0.0) -> None:
    """Two gradients of which the run has half: one that is known to some per cent only, and one that is known well."""
    half = np.float32(0.5 if steps.replicas > 1 else 1.0)
    u, w = (steps.read(line, name, [np.float32(0.5)] * steps.replicas) for line, name in ((2, "u"), (3, "w")))
    loose = steps.each("Sum", 4, lambda x, u: half * (1 + noise) * np.float32((x * x).sum()) * u, steps.batch, u)
    steps.assign(6, "u", steps.each("Norm", 6, lambda x: x / (x + np.float32(0.1)), steps.summed(5, loose)))
    exact = steps.each("Sum", 7, lambda x, w: half * np.float32(x.sum()) * w, steps.batch, w)
    steps.assign(9, "w", steps.summed(8, exact))


def test_what_may_be_a_multiple_is_blamed_last() -> None:
    """What is made of it is in no relation, and what is known well says which line it is."""
    run, reference = watched(_halved, _X, _X[:4], _X[4:])
    _, noisy = watched(partial(_halved, noise=0.02), _X, _X[:4], _X[4:])
    found = find_culprit([run], reference, [noisy])
    assert isinstance(found, Culprit)
    assert found.line == 7


def _divided(steps: Steps, divisor: float) -> None:
    """Means of replicas, added up and divided where one device divides by one."""
    w = steps.read(2, "w", [np.float32(0.5)] * steps.replicas)
    means = steps.each("Mean", 3, lambda x, w: np.float32((x * w).mean()), steps.batch, w)
    whole = steps.summed(4, means)
    by = steps.constant(5, divisor if steps.replicas > 1 else 1.0)
    steps.assign(6, "w", steps.each("RealDiv", 5, np.divide, whole, by))


@pytest.mark.parametrize(("divisor", "line"), [(4.0, 5), (2.0, None), (1.0, 3)])
def test_what_is_too_small_comes_of_nothing_that_is_too_large(divisor: float, line: int | None) -> None:
    """Who divides once too often is to blame, and not the means, which are too large only if nobody divides."""
    run, reference = watched(partial(_divided, divisor=divisor), _X, _X[:4], _X[4:])
    found = find_culprit([run], reference, [])
    assert (found.line if isinstance(found, Culprit) else None) == line, found
