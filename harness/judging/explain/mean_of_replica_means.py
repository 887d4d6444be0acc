"""Rule: replicas with unequal numbers of examples were averaged with equal weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.judging.explain._prediction import Check, Predicting, evident, judged, undone
from harness.judging.explain._response import all_count, span
from harness.judging.explain._view import View
from harness.judging.explain.protocol import Attempt, Rule

__all__ = ["RULES"]

_ID = "mean_of_replica_means"
_CURE = (
    "Divide the sum over a replica's examples by the number of examples in the global batch, "
    "tf.nn.compute_average_loss(per_example_loss, global_batch_size=...), and reduce with ReduceOp.SUM; or give every "
    "replica the same number of examples with batch(..., drop_remainder=True) or per-example weights of zero."
)

_UNEQUAL = 1.01
_SUM_OFF = 1e-3
"""Weights are found from rounded values: those that are as good as equal explain nothing."""


def _attempts(view: View) -> Iterable[Attempt | None]:
    yield _unknown_weights(view)
    for observable, step in _wrong(view):
        counts = _uneven(view, step)
        if counts is None:
            continue
        shares = [count / sum(counts) for count in counts]
        for divided in (True, False):
            yield judged(
                _ID,
                f"At step {step} the replicas had {_listed(counts)} examples, and what they contributed to the "
                f"{observable} gives the reference's value when each is weighted by its share of the examples; they "
                f"were {'averaged' if divided else 'summed'} with equal weights.",
                list(_reweighted(view, observable, step, shares, divided)),
            )


def _unknown_weights(view: View) -> Attempt | None:
    """Replicas have as many examples each, but these count differently, as by their tokens: the weights are found.

    They are common to all gradients and the loss, all of them count, and add up to what equal weights do.
    """
    step = view.origin("gradients")
    shards = None if step is None else view.shards(step)
    if step is None or (shards is not None and _uneven(view, step) is not None):
        return None
    names = view.names("gradients", step)
    parts = [view.parts("gradients", step, name) for name in names]
    known = [each for each in parts if each is not None and len(each) == view.replicas > 1]
    if not names or len(known) < len(parts):
        return None
    truth = [view.truth("gradients", step, name) for name in names]
    weights = span(truth, [[each[k] for each in known] for k in range(view.replicas)])
    if weights is None or not all_count(weights) or max(weights) < _UNEQUAL * min(weights):
        return None
    whole = next((count for count in (view.replicas, 1) if abs(sum(weights) - count) < _SUM_OFF * count), None)
    if whole is None:
        return None
    shares = [weight / whole for weight in weights]
    checks = [*_reweighted(view, "gradients", step, shares, whole > 1)]
    if step in view.steps("loss") and view.parts("loss", step, "loss") is not None:
        checks += _reweighted(view, "loss", step, shares, whole > 1)
    said = _listed([f"{100 * share:.3g} %" for share in shares])
    return judged(
        _ID,
        f"At step {step} what the replicas contributed to the gradients gives the reference's values, all of them, "
        f"when the replicas have the shares {said}; they were {'averaged' if whole > 1 else 'summed'} with equal "
        "weights. So each divided by a number of its own, such as its tokens, its positions that are not padding, "
        "the sum of its sample weights, or a mean or variance of its batch. Divide by that number of the global batch: "
        "sum what it is made of over all replicas first, "
        'tf.distribute.get_replica_context().all_reduce("sum", count), and reduce the losses with ReduceOp.SUM.',
        checks,
    )


def _evidence(view: View) -> Iterable[Attempt | None]:
    yield from (_circumstantial(view, observable, step) for observable, step in _wrong(view)[:1])


def _wrong(view: View) -> list[tuple[str, int]]:
    return [(what, step) for what in ("loss", "gradients") if (step := view.origin(what)) is not None]


def _uneven(view: View, step: int) -> list[int] | None:
    """Examples per replica, when they are not the same everywhere."""
    shards = view.shards(step)
    counts = [] if shards is None else [len(shard) for shard in shards]
    return counts if len(set(counts)) > 1 else None


def _reweighted(view: View, observable: str, step: int, shares: list[float], divided: bool) -> Iterable[Check]:
    """The reference's value from the parts: each is a mean, divided by the number of replicas or not."""
    import numpy as np

    count = len(shares)
    for name in view.names(observable, step):
        parts = view.parts(observable, step, name)
        if parts is None or len(parts) != count:
            return
        weights = [share * (count if divided else 1) for share in shares]
        # A replica without examples counts for nothing, even if its mean over nothing is NaN.
        terms = [weight * part for weight, part in zip(weights, parts, strict=True) if weight]
        yield undone(view, observable, step, name, np.sum(terms, axis=0), count)


def _circumstantial(view: View, observable: str, step: int) -> Attempt | None:
    """Without parts: right as long as shards are even, and a loss in the range that the model allows."""
    counts = _uneven(view, step)
    before = [other for other in view.steps(observable) if other < step]
    if counts is None or not before or any(_uneven(view, other) is not None for other in before):
        return None
    if view.parts(observable, step, view.names(observable, step)[0]) is not None:
        return None  # the prediction above has spoken
    smallest, largest = min(count for count in counts if count), max(counts)
    even = sum(counts) / len(counts)
    if observable == "loss":
        loss, truth = (
            float(array.sum()) for array in (view.value("loss", step, "loss"), view.truth("loss", step, "loss"))
        )
        if truth > 0 and not even / largest * truth <= loss <= even / smallest * truth:
            return None
    return evident(
        _ID,
        f"All is right while the replicas have equally many examples; the {observable} is wrong from step {step} on, "
        f"the first at which they do not ({_listed(counts)}), by no more than averaging the replicas' means with equal "
        f"weights would explain. Only reduced values were recorded, so this is evidence, not proof: report the "
        f"PerReplica values to have it proved.",
    )


def _listed(counts: Sequence[int | str]) -> str:
    return ", ".join(map(str, counts[:-1])) + f" and {counts[-1]}"


RULES: tuple[Rule, ...] = (Predicting(_ID, 35, _attempts, _evidence, cure=_CURE),)
