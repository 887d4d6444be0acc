"""What each way to reduce a loss trains with: measured on a model of one weight, and predicted by closed forms."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from scenarios.programs import models

__all__ = ["BATCHES", "ROWS", "Row", "describe", "measure", "predict", "shares", "truth"]

Loop = Literal["custom", "fit"]
# Replicas divide the first; Keras 3 `fit` cannot start with an uneven batch. 1 leaves replicas with nothing.
BATCHES = (12, 7, 1)


@dataclass(frozen=True)
class Row:
    """One way to reduce: the loop, the Keras flavour, what the user writes, and the formula of (loss, gradient).

    `formula` gets the shares, one tuple of per-example losses for each replica, and returns exact fractions; None stands
    for NaN. `true` is what one device computes. `source` is where the semantics are documented, or the name of the
    known issue if they are a defect.
    """

    loop: Loop
    flavour: models.Flavour
    reduction: str
    formula: Callable[[Shares], Pair]
    true: Callable[[Share], Fraction]
    source: str

    @property
    def id(self) -> str:
        """The name in reports."""
        return f"{self.loop}-{self.flavour}-{self.reduction}".replace(" ", "_")


Share = tuple[Fraction, ...]
Shares = tuple[Share, ...]
Pair = tuple[Fraction | None, Fraction | None]


def losses_of(batch: int) -> Share:
    """The loss of each example when the weight is 1; its gradient is the same number."""
    return tuple(Fraction(840 * (index + 1) ** 2) for index in range(batch))


def weights_of(batch: int) -> Share:
    """The sample weight of each example."""
    return tuple(Fraction(1 + index % 3) for index in range(batch))


def shares(batch: int, replicas: int) -> Shares:
    """How TensorFlow cuts a global batch: the first replicas get the larger pieces, the last ones maybe nothing.

    Source: `batch_sizes_for_worker` in tensorflow/python/data/experimental/ops/distribute.py.
    """
    size, more = divmod(batch, replicas)
    sizes = [size + (replica < more) for replica in range(replicas)]
    return tuple(losses_of(batch)[sum(sizes[:r]) : sum(sizes[: r + 1])] for r in range(replicas))


def _mean(values: Share) -> Fraction:
    return sum(values, Fraction(0)) / len(values)


def _sum(values: Share) -> Fraction:
    return sum(values, Fraction(0))


def _mean_or_zero(values: Share) -> Fraction:
    return _mean(values) if values else Fraction(0)


def _flat(parts: Shares) -> Share:
    return tuple(value for part in parts for value in part)


# Formulas of (reported loss, applied gradient).
def global_mean(parts: Shares) -> Pair:
    """Both are the mean over the global batch."""
    return _mean(_flat(parts)), _mean(_flat(parts))


def global_sum(parts: Shares) -> Pair:
    """Both are the sum over the global batch."""
    return _sum(_flat(parts)), _sum(_flat(parts))


def sum_of_means(parts: Shares) -> Pair:
    """Every replica's mean, summed; the mean of an empty replica is NaN."""
    if not all(parts):
        return None, None
    return _sum(tuple(map(_mean, parts))), _sum(tuple(map(_mean, parts)))


def mean_of_means_summed_gradient(parts: Shares) -> Pair:
    """The mean of the replicas' means is reported, but optimizers sum gradients."""
    total, _ = sum_of_means(parts)
    return (None if total is None else total / len(parts)), total


def mean_of_means(parts: Shares) -> Pair:
    """The mean of the replicas' means, an empty replica's being 0."""
    mean = _mean(tuple(map(_mean_or_zero, parts)))
    return mean, mean


def fit_mean(parts: Shares) -> Pair:
    """The gradient is the mean of the replicas' means; the reported loss weights each by its examples."""
    return _mean(_flat(parts)), mean_of_means(parts)[1]


def keras3_fit_sum(parts: Shares) -> Pair:
    """The gradient is the sum; reported is R times the mean of the replicas' sums, weighted by their examples."""
    weighted = sum((len(part) * _sum(part) for part in parts), Fraction(0))
    return len(parts) * weighted / len(_flat(parts)), _sum(_flat(parts))


def keras3_fit_scalar(parts: Shares) -> Pair:
    """Nothing divides by R, but reporting multiplies by R."""
    return len(parts) * _mean(_flat(parts)), _sum(tuple(map(_mean_or_zero, parts)))
