"""Closed forms of what each way to reduce a loss reports and trains with, for a loss that is linear in its one
weight.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

# Replicas divide the first; Keras 3 `fit` cannot start with an uneven batch. With 1, some replicas get nothing.
BATCHES = (12, 7, 1)


class Example(NamedTuple):
    """The loss where the weight is 1, which is also the gradient, the sample weight, and whether a mask hides it."""

    loss: Fraction
    weight: Fraction = Fraction(1)
    padding: bool = False


Shares = tuple[tuple[Example, ...], ...]
# The reported loss and the applied gradient; None is NaN.
Pair = tuple["Fraction | None", "Fraction | None"]
ZERO = Fraction(0)
# No replica has nothing else: with tf_keras its loss would be NaN (tf-keras-fit-masked-replica).
_PADDING = (1, 2)


def examples_of(batch: int) -> tuple[Example, ...]:
    """A batch; 840 divides by every number of examples and of replicas in the table. Padding is in the first half."""
    return tuple(
        Example(Fraction(840 * (index + 1) ** 2), Fraction(1 + index % 3), padding=index in _PADDING)
        for index in range(batch)
    )


def shares(batch: int, replicas: int) -> Shares:
    """How TensorFlow cuts a global batch: pieces of batch / R, rounded up, for as long as there are examples.

    Measured, for known and unknown batch sizes; `rebatch_fn` in tensorflow/python/distribute/input_lib.py.
    """
    size = -(-batch // replicas)
    return tuple(examples_of(batch)[replica * size : (replica + 1) * size] for replica in range(replicas))


def _total(part: tuple[Example, ...]) -> Fraction:
    return sum((example.loss for example in part), ZERO)


def _weighted(part: tuple[Example, ...]) -> Fraction:
    return sum((example.loss * example.weight for example in part), ZERO)


def _flat(parts: Shares) -> tuple[Example, ...]:
    return tuple(example for part in parts for example in part)


def _quotient(total: Fraction, count: Fraction | int) -> Fraction:
    """As `divide_no_nan` has it: an empty replica contributes 0."""
    return total / count if count else ZERO


def global_mean(parts: Shares) -> Pair:
    """Both are the mean over the global batch."""
    mean = _total(_flat(parts)) / len(_flat(parts))
    return mean, mean


def global_sum(parts: Shares) -> Pair:
    """Both are the sum over the global batch."""
    return _total(_flat(parts)), _total(_flat(parts))


def sum_of_means(parts: Shares) -> Pair:
    """Both are the sum of the replicas' means; the loss of an empty replica is NaN, and it has no gradient."""
    total = sum((_quotient(_total(part), len(part)) for part in parts), ZERO)
    return (total if all(parts) else None), total


def mean_of_means(parts: Shares) -> Pair:
    """The mean of the replicas' means is reported, but optimizers sum the gradients of the replicas."""
    loss, gradient = sum_of_means(parts)
    return (None if loss is None else loss / len(parts)), gradient


def mean_over_replicas(parts: Shares) -> Pair:
    """Every replica divides by R times its own number of examples; an empty replica counts 0."""
    mean = sum((_quotient(_total(part), len(part)) for part in parts), ZERO) / len(parts)
    return mean, mean


def fit_mean(parts: Shares) -> Pair:
    """Applied is the mean of the replicas' means; reported is their mean weighted by examples, the global mean."""
    return global_mean(parts)[0], mean_over_replicas(parts)[1]


def weighted_fit_mean(parts: Shares) -> Pair:
    """As `fit_mean`, for losses times sample weights; the divisor counts examples, not weights."""
    return fit_mean(tuple(tuple(Example(each.loss * each.weight) for each in part) for part in parts))


def fit_masked_mean(parts: Shares) -> Pair:
    """A mask lets every replica divide by its own number of examples that are not padding."""
    return keras3_fit_weighted_mean(
        tuple(tuple(Example(each.loss, Fraction(not each.padding)) for each in part) for part in parts)
    )


def keras3_fit_weighted_mean(parts: Shares) -> Pair:
    """`mean_with_sample_weight` divides by the replica's own sum of weights."""
    means = [_quotient(_weighted(part), sum((example.weight for example in part), ZERO)) for part in parts]
    reported = sum((len(part) * mean for part, mean in zip(parts, means, strict=True)), ZERO) / len(_flat(parts))
    return reported, sum(means, ZERO) / len(parts)


def fit_sum(parts: Shares) -> Pair:
    """Applied is the sum; reported is R times the mean of the replicas' sums, weighted by their examples."""
    weighted = sum((len(part) * _total(part) for part in parts), ZERO)
    return len(parts) * weighted / len(_flat(parts)), _total(_flat(parts))


def keras3_fit_scalar(parts: Shares) -> Pair:
    """A scalar is not divided by R, so the replicas' means are summed; reporting multiplies by R all the same."""
    applied = sum((_quotient(_total(part), len(part)) for part in parts), ZERO)
    return len(parts) * _total(_flat(parts)) / len(_flat(parts)), applied


def regularizer_once(parts: Shares) -> Pair:
    """A term that knows no examples counts once, not once for each replica."""
    return Fraction(840), Fraction(840)


def describe(value: Fraction | None, true: Fraction, parts: Shares) -> str:
    """A value in words: a multiple of what one device has, or of the mean of the replicas' means."""
    if value is None:
        return "NaN"
    if value == true:
        return "1"
    mean = mean_over_replicas(parts)[0]
    assert mean is not None
    for whole, words in ((true, ""), (mean, " mean of replica means")):
        multiple = value / whole
        if multiple == 1:
            return words.strip()
        if multiple.denominator == 1 or multiple.numerator == 1:
            return f"{multiple}{' x' if words else ''}{words}"
    return f"{float(value / true):.4g}"
