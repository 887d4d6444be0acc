"""Rule: each replica clipped its own gradient, where the sum over replicas should have been clipped."""

from __future__ import annotations

import math
from collections.abc import Iterable

from harness.judging.explain._clipping import SAME_NORM, in_moments, in_variables, listed, norm_of
from harness.judging.explain._prediction import Predicting, check, evident, judged, undone
from harness.judging.explain._response import all_count, combined, span
from harness.judging.explain._view import CaseView, Floats
from harness.judging.explain.protocol import Attempt, Rule

_ID = "clipped_before_reduce"
_CURE = (
    "Clip after the reduction: in the replica function sum first, "
    'tf.distribute.get_replica_context().all_reduce("sum", gradients), then tf.clip_by_global_norm, then apply: '
    "in tf_keras with optimizer.apply_gradients(..., skip_gradients_aggregation=True), or use its optimizers' "
    "own global_clipnorm=, clipnorm= or clipvalue=, which act on reduced gradients. Those of Keras 3 clip before they "
    "reduce, and always sum: give them the clipped sum divided by the number of replicas."
)


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    if view.replicas < 2:
        return
    step = view.origin("gradients")
    if step is not None:
        names = view.names("gradients", step)
        parts = [view.parts("gradients", step, name) for name in names]
        if all(part is not None and len(part) == view.replicas for part in parts):
            by_name = [part for part in parts if part is not None]
            yield _rescaled(view, step, names, by_name)
            yield _by_value(view, step, names, by_name)
    yield in_moments(_ID, view)


def _evidence(view: CaseView) -> Iterable[Attempt | None]:
    yield in_variables(_ID, view)
    step = view.origin("gradients")
    if view.replicas > 1 and step is not None:
        yield _threshold_missed(view, step, view.names("gradients", step))


def _rescaled(view: CaseView, step: int, names: list[str], parts: list[list[Floats]]) -> Attempt | None:
    """The reference's direction is a sum of the parts' directions, some of which have the threshold as their norm."""
    count = view.replicas
    truth = [view.truth("gradients", step, name) for name in names]
    by_replica = [[part[replica] for part in parts] for replica in range(count)]
    factors = span(truth, by_replica)
    norms = [norm_of([part[replica] for part in parts]) for replica in range(count)]
    threshold = norm_of(truth)
    clipped = [norm for norm in norms if any(math.isclose(norm * k, threshold, rel_tol=SAME_NORM) for k in (1, count))]
    if factors is None or not all_count(factors) or not clipped:
        return None
    return judged(
        _ID,
        f"At step {step} the reference's gradient has the norm {threshold:.6g}, and so has that of "
        f"{len(clipped)} of {count} replicas (their norms: {listed(norms)}): each was "
        f"clipped by itself. Undoing that, with a factor for each replica ({', '.join(f'{f:.3g}' for f in factors)}), "
        f"their sum is the reference's gradient.",
        [
            undone(view, "gradients", step, name, restored, max(1.0, *factors))
            for name, restored in zip(names, combined(factors, by_replica), strict=True)
        ],
    )


def _by_value(view: CaseView, step: int, names: list[str], parts: list[list[Floats]]) -> Attempt | None:
    """Where no part reaches the threshold the sum is right, and some parts are at the threshold exactly."""
    import numpy as np

    flat = [np.concatenate([part[replica].ravel() for part in parts]) for replica in range(view.replicas)]
    limits = [float(np.max(np.abs(array))) for array in flat]
    limit = max(limits)
    at_limit = np.array([np.isclose(np.abs(array), limit, rtol=SAME_NORM / 100, atol=0) for array in flat])
    if limit == 0 or at_limit.sum() < 2 or at_limit.any(axis=0).all():
        return None
    highest = max(float(np.max(np.abs(view.truth("gradients", step, name)))) for name in names)
    checks = []
    position = 0
    for name in names:
        value, truth = view.value("gradients", step, name), view.truth("gradients", step, name)
        free = ~np.any(at_limit, axis=0)[position : position + value.size].reshape(value.shape)
        free &= np.abs(truth) < highest * (1 - SAME_NORM)
        position += value.size
        # Where a part was clipped nothing is predicted; there the observed value stands for the prediction.
        checks.append(check(view, "gradients", step, name, np.where(free, truth, value)))
    return judged(
        _ID,
        f"At step {step}, {int(at_limit.sum())} elements of the replicas' gradients are exactly {limit:.6g} in "
        f"magnitude, none is larger, and wherever no replica is at that limit the sum over replicas is right: values "
        f"were clipped on each replica.",
        checks,
    )


def _threshold_missed(view: CaseView, step: int, names: list[str]) -> Attempt | None:
    """Only sums were recorded: the reference's norm is the same at several steps, and the run's is another."""
    # Where several models are trained in turns, other steps have other gradients.
    alike = [other for other in view.steps("gradients") if set(names) <= set(view.names("gradients", other))]
    truth = [norm_of([view.truth("gradients", other, name) for name in names]) for other in alike]
    threshold = max(truth)
    times = sum(math.isclose(other, threshold, rel_tol=SAME_NORM) for other in truth)
    right, found = ([of("gradients", step, name) for name in names] for of in (view.truth, view.value))
    norm = norm_of(found)
    factors = span(found, [right])
    if factors is None or times < 2 or not SAME_NORM < abs(norm / threshold - 1) < view.replicas:
        return None
    if norm_of([a - b for a, b in zip(found, combined(factors, [right]), strict=True)]) < SAME_NORM * norm:
        return None  # the same direction: scaled, not put together from other lengths
    return evident(
        _ID,
        f"The norm of the reference's gradient is {threshold:.6g} at {times} of {len(truth)} steps, so it is clipped "
        f"to that; the run's is {norm:.6g} at step {step}, in another direction, as that of a sum of gradients is "
        f"that were clipped one by one. Report PerReplica gradients to have it proved.",
    )


RULES: tuple[Rule, ...] = (Predicting(_ID, 60, _attempts, _evidence, cure=_CURE),)
