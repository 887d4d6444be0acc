"""Rule: each replica divides by a number of its own examples, where one device divides by that of the global batch."""

from __future__ import annotations

from collections.abc import Iterable

from harness.judging.explain._prediction import Predicting, judged
from harness.judging.explain._response import all_count, span
from harness.judging.explain._view import CaseView
from harness.judging.explain._weights import reweighted, uneven
from harness.judging.explain.protocol import Attempt, Rule
from harness.judging.wording import joined

OWN_NUMBER = "divided_by_own_number"
_CURE = (
    "Such a number is how many tokens or positions are no padding, the sum of sample weights, or a mean or variance of "
    "a batch. Divide by that of the global batch: sum what it is made of over all replicas first, "
    'tf.distribute.get_replica_context().all_reduce("SUM", count), and reduce the losses with ReduceOp.SUM. '
    "A division by the number of replicas is then left out."
)

_UNEQUAL = 1.01
_SUM_OFF = 1e-3
"""Weights are found from rounded values: those that are as good as equal explain nothing."""


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    yield _attempt(view)


def _attempt(view: CaseView) -> Attempt | None:
    """Replicas have as many examples each, but these count differently, as by their tokens: the weights are found.

    They are common to all gradients and the loss, all of them count, and add up to what equal weights do.
    """
    step = view.origin("gradients")
    shards = None if step is None else view.shards(step)
    if step is None or (shards is not None and uneven(view, step) is not None):
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
    checks = [*reweighted(view, "gradients", step, shares, whole > 1)]
    if step in view.steps("loss") and view.parts("loss", step, "loss") is not None:
        checks += reweighted(view, "loss", step, shares, whole > 1)
    said = joined([f"{100 * share:.3g} %" for share in shares])
    return judged(
        OWN_NUMBER,
        f"At step {step} what the replicas contributed to the gradients gives the reference's values, all of them, "
        f"when the replicas have the shares {said}; they were {'averaged' if whole > 1 else 'summed'} with equal "
        "weights. So each divided by a number of its own, such as its tokens.",
        checks,
    )


RULES: tuple[Rule, ...] = (Predicting(OWN_NUMBER, 36, _attempts, cure=_CURE),)
