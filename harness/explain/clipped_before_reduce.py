"""Rule: each replica clipped its own gradient, where the sum over replicas should have been clipped."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

from harness.explain._prediction import EVIDENCE, Predicting, check, evident, judged, undone
from harness.explain._response import combined, exceeding, excess, paired, span
from harness.explain._scene import Floats, Scene
from harness.explain.protocol import Attempt, Rule

__all__ = ["RULES"]

_ID = "clipped_before_reduce"
_CURE = (
    "Clip after the reduction: in the replica function sum first, "
    'tf.distribute.get_replica_context().all_reduce("sum", gradients), then tf.clip_by_global_norm, then '
    "optimizer.apply_gradients(..., skip_gradients_aggregation=True); or use the optimizer's own global_clipnorm=, "
    "clipnorm= or clipvalue=, which act on reduced gradients."
)
_SAME_NORM = 1e-4
"""Relative difference up to which two norms are taken for the same threshold; only unequal ones tell clipping from "
"not."""


def _attempts(scene: Scene) -> Iterable[Attempt | None]:
    if scene.replicas < 2:
        return
    step = scene.origin("gradients")
    if step is not None:
        names = scene.names("gradients", step)
        parts = [scene.parts("gradients", step, name) for name in names]
        if all(part is not None and len(part) == scene.replicas for part in parts):
            by_name = [part for part in parts if part is not None]
            yield _rescaled(scene, step, names, by_name)
            yield _by_value(scene, step, names, by_name)
    yield _in_variables(scene)


def _evidence(scene: Scene) -> Iterable[Attempt | None]:
    step = scene.origin("gradients")
    if scene.replicas > 1 and step is not None:
        yield _threshold_missed(scene, step, scene.names("gradients", step))


def _norm(arrays: Sequence[Floats]) -> float:
    return math.sqrt(sum(float((array**2).sum()) for array in arrays))


def _rescaled(scene: Scene, step: int, names: list[str], parts: list[list[Floats]]) -> Attempt | None:
    """The reference's direction is a sum of the parts' directions, some of which have the threshold as their norm."""
    count = scene.replicas
    truth = [scene.truth("gradients", step, name) for name in names]
    by_replica = [[part[replica] for part in parts] for replica in range(count)]
    factors = span(truth, by_replica)
    norms = [_norm([part[replica] for part in parts]) for replica in range(count)]
    threshold = _norm(truth)
    clipped = [norm for norm in norms if any(math.isclose(norm * k, threshold, rel_tol=_SAME_NORM) for k in (1, count))]
    if factors is None or min(factors) <= 0 or not clipped:
        return None
    return judged(
        _ID,
        f"At step {step} the reference's gradient has the norm {threshold:.6g}, and so has that of "
        f"{len(clipped)} of {count} replicas (their norms: {', '.join(f'{norm:.6g}' for norm in norms)}): each was "
        f"clipped by itself. Undoing that, with a factor for each replica ({', '.join(f'{f:.3g}' for f in factors)}), "
        f"their sum is the reference's gradient. {_CURE}",
        [
            undone(scene, "gradients", step, name, restored, max(1.0, *factors))
            for name, restored in zip(names, combined(factors, by_replica), strict=True)
        ],
    )


def _by_value(scene: Scene, step: int, names: list[str], parts: list[list[Floats]]) -> Attempt | None:
    """Where no part reaches the threshold the sum is right, and some parts are at the threshold exactly."""
    import numpy as np

    flat = [np.concatenate([part[replica].ravel() for part in parts]) for replica in range(scene.replicas)]
    limits = [float(np.max(np.abs(array))) for array in flat]
    limit = max(limits)
    at_limit = np.array([np.isclose(np.abs(array), limit, rtol=_SAME_NORM / 100, atol=0) for array in flat])
    if limit == 0 or at_limit.sum() < 2 or at_limit.any(axis=0).all():
        return None
    highest = max(float(np.max(np.abs(scene.truth("gradients", step, name)))) for name in names)
    checks = []
    position = 0
    for name in names:
        value, truth = scene.value("gradients", step, name), scene.truth("gradients", step, name)
        free = ~np.any(at_limit, axis=0)[position : position + value.size].reshape(value.shape)
        free &= np.abs(truth) < highest * (1 - _SAME_NORM)
        position += value.size
        # Where a part was clipped nothing is predicted; there the observed value stands for the prediction.
        checks.append(check(scene, "gradients", step, name, np.where(free, truth, value)))
    return judged(
        _ID,
        f"At step {step}, {int(at_limit.sum())} elements of the replicas' gradients are exactly {limit:.6g} in "
        f"magnitude, none is larger, and wherever no replica is at that limit the sum over replicas is right: values "
        f"were clipped on each replica. {_CURE}",
        checks,
    )


def _threshold_missed(scene: Scene, step: int, names: list[str]) -> Attempt | None:
    """Only sums were recorded: the reference's norm is the same at every step, the run's is smaller."""
    steps = [other for other in scene.steps("gradients") if other >= step]
    truth = [_norm([scene.truth("gradients", other, name) for name in names]) for other in scene.steps("gradients")]
    norm = _norm([scene.value("gradients", step, name) for name in names])
    bound = max(truth)
    same = [other for other in truth if math.isclose(other, bound, rel_tol=_SAME_NORM)]
    ours = [_norm([scene.value("gradients", other, name) for name in names]) for other in steps]
    if len(same) < 2 or max(ours) > bound * (1 - _SAME_NORM) or norm < bound / scene.replicas / 2:
        return None
    return evident(
        _ID,
        f"The norm of the reference's gradient is {bound:.6g} at {len(same)} of {len(truth)} steps, so it is clipped "
        f"to that; the run's is smaller ({norm:.6g} at step {step}), as a mean of gradients is that were clipped one "
        f"by one. Report PerReplica gradients to have it proved. {_CURE}",
    )


def _in_variables(scene: Scene) -> Attempt | None:
    """Gradients were recorded before clipping and are right; the variables are off by unequal amounts of each part."""
    import numpy as np

    step = scene.origin("variables")
    if step is None or step not in scene.steps("gradients") or scene.wrong("gradients", step) or scene.drifted(step):
        return None
    pairs = paired(scene, step)
    parts = [scene.parts("gradients", step, name) for name in pairs]
    by_name = [part for part in parts if part is not None]
    if not pairs or len(by_name) < len(parts):
        return None
    off = excess(scene, "variables", step, pairs.values())
    by_replica = [[part[replica] for part in by_name] for replica in range(scene.replicas)]
    factors = span(off, by_replica)
    norms = [_norm([part[replica] for part in by_name]) for replica in range(scene.replicas)]
    if factors is None or max(factors) - min(factors) <= _SAME_NORM * max(map(abs, factors)):
        return None
    order = np.argsort(norms)
    if any(factors[b] < factors[a] - _SAME_NORM * max(map(abs, factors)) for a, b in itertools.pairwise(order)):
        return None  # the larger a gradient, the more of it is cut off, and updates go against gradients
    return judged(
        _ID,
        f"The gradients are right, but the variables after step {step} lack {', '.join(f'{f:.3g}' for f in factors)} "
        f"times the gradient of each replica, whose norms are {', '.join(f'{norm:.3g}' for norm in norms)}: the "
        f"larger, the more is cut off. Each replica's gradient was clipped by itself. {_CURE}",
        exceeding(scene, "variables", step, pairs.values(), combined(factors, by_replica)),
    )


RULES: tuple[Rule, ...] = (Predicting(_ID, 60, _attempts), Predicting(_ID, EVIDENCE + 2, _evidence))
