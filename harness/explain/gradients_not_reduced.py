"""Rule: each replica applied its own gradient, or all applied one replica's."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from harness.explain._prediction import EVIDENCE, Predicting, check, evident, judged
from harness.explain._response import combined, exceeding, excess, is_first_moment, paired, responses, scaled, span
from harness.explain._scene import Floats, Scene
from harness.explain.protocol import Attempt, Rule

__all__ = ["RULES"]

_ID = "gradients_not_reduced"
_CURE = (
    "Apply gradients through optimizer.apply_gradients inside the replica function without "
    "skip_gradients_aggregation=True or experimental_aggregate_gradients=False, or sum them first: "
    'tf.distribute.get_replica_context().all_reduce("sum", gradients). A variable that replicas update themselves '
    "needs "
    "aggregation=tf.VariableAggregation.SUM and not ON_READ synchronization."
)
_STATISTICS = re.compile(r"moving_|running_")
"""Copies of these drift for a reason of their own, which `batch_statistics_local` explains."""


def _first(scene: Scene) -> tuple[int, list[str]] | None:
    """The first step after which variables are wrong or their copies differ, and which copies do."""
    steps = scene.steps("variables") if scene.replicas > 1 else []
    step = next(
        (step for step in steps if scene.drifted(step) or _apart(scene, step) or scene.wrong("variables", step)), None
    )
    return None if step is None else (step, _apart(scene, step))


def _attempts(scene: Scene) -> Iterable[Attempt | None]:
    found = _first(scene)
    if found is None:
        return
    step, drifting = found
    if drifting:
        yield from _own_gradients(scene, step, drifting)
        yield _mean_is_right(scene, step, drifting)
    else:
        yield from _one_gradient(scene, step)


def _apart(scene: Scene, step: int) -> list[str]:
    """Drifting variables, among them those of ON_READ synchronization that are trained."""
    trained = paired(scene, step).values() if scene.names("gradients", step) else ()
    on_read = [name for name in trained if scene.on_read(step, name) and scene.apart(step, name)]
    return [*(name for name in scene.drifted(step) if not _STATISTICS.search(name)), *on_read]


def _key(array: Floats) -> bytes:
    return array.tobytes()


def _own_gradients(scene: Scene, step: int, drifting: list[str]) -> Iterable[Attempt | None]:
    """The copies differ from their mean as the replicas' gradients differ from theirs."""
    import numpy as np

    pairs = {gradient: name for gradient, name in paired(scene, step).items() if name in drifting}
    copies = [np.array(scene.copies(step, name)) for name in pairs.values()]
    parts = [np.array(scene.parts("gradients", step, name)) for name in pairs]
    if not pairs or any(part.shape != copy.shape for part, copy in zip(parts, copies, strict=True)):
        return
    spread = [copy - copy.mean(axis=0) for copy in copies]
    for text, response in responses(step):
        slopes = [response(part) for part in parts]
        slopes = [slope - slope.mean(axis=0) for slope in slopes]
        factors = span(spread, [slopes])
        if factors is None or factors[0] >= 0:
            continue
        yield judged(
            _ID,
            f"The copies of {', '.join(pairs.values())} drift apart at step {step}: each has moved by {text} its own "
            f"replica's gradient, with the factor {-factors[0]:.3g} for all of them. {_CURE}",
            [
                replace(
                    check(scene, "variables", step, name, copy.mean(axis=0) + factors[0] * slope),
                    observed=copy,
                    reference=np.broadcast_to(copy.mean(axis=0), copy.shape),
                )
                for name, copy, slope in zip(pairs.values(), copies, slopes, strict=True)
            ],
        )


def _mean_is_right(scene: Scene, step: int, drifting: list[str]) -> Attempt | None:
    """Where an update is linear in the gradient, the copies' mean is what the mean gradient would have led to."""
    import numpy as np

    moments = [name for name in drifting if is_first_moment(name)]
    names = moments or drifting
    return judged(
        _ID,
        f"The copies of {', '.join(names)} drift apart at step {step}, and the mean over the copies is the reference's "
        f"value: each replica applied the gradient of its own examples. {_CURE}",
        [
            replace(
                check(scene, "variables", step, name, scene.truth("variables", step, name)),
                observed=np.mean(scene.copies(step, name), axis=0),
                reference=scene.copies(step, name)[0],
            )
            for name in names
        ],
    )


def _evidence(scene: Scene) -> Iterable[Attempt | None]:
    """Nothing recorded predicts the copies, but every one of them has moved, and none to where it should be."""
    found = _first(scene)
    if found is not None and found[1]:
        yield _all_moved(scene, *found)


def _all_moved(scene: Scene, step: int, drifting: list[str]) -> Attempt | None:
    for name in drifting:
        copies = scene.copies(step, name)
        before = scene.copies(step - 1, name) if step - 1 in scene.steps("variables") else []
        known = [*map(_key, before), _key(scene.truth("variables", step, name))]
        if copies[0].ndim and (
            len(set(map(_key, copies))) < len(copies) or any(_key(copy) in known for copy in copies)
        ):
            return None
    if step != min(scene.steps("variables")) or all(scene.copies(step, name)[0].ndim == 0 for name in drifting):
        return None
    return evident(
        _ID,
        f"All copies of {', '.join(drifting)} differ from each other and from the reference's from step {step} on, as "
        f"if each replica applied its own gradient. Without PerReplica gradients in record.step this is evidence, not "
        f"proof. {_CURE}",
    )


def _summed_means(scene: Scene, step: int) -> bool:
    """Whether the parts are means, so that their recorded sum is the number of replicas too large."""
    attempt = judged(_ID, "", scaled(scene, "gradients", step, scene.names("gradients", step), scene.replicas))
    return attempt is not None and attempt.ratio <= 1


def _one_gradient(scene: Scene, step: int) -> Iterable[Attempt | None]:
    """All copies agree, and are off as one replica's gradient is off from the gradient of all."""
    pairs = paired(scene, step)
    parts = {name: scene.parts("gradients", step, name) for name in pairs}
    if not pairs or any(part is None or len(part) != scene.replicas for part in parts.values()):
        return
    if scene.wrong("gradients", step) and not _summed_means(scene, step):
        return  # the gradients themselves are wrong, and the variables follow
    off = excess(scene, "variables", step, pairs.values())
    for replica in range(scene.replicas):
        for factor in (1, scene.replicas):
            for text, response in responses(step):
                others = [
                    response(factor * (parts[name] or [])[replica]) - response(scene.truth("gradients", step, name))
                    for name in pairs
                ]
                factors = span(off, [others])
                if factors is None or factors[0] >= 0:
                    continue
                yield judged(
                    _ID,
                    f"After step {step} every copy of {', '.join(pairs.values())} is what replica {replica}'s gradient "
                    f"alone leads to ({text} it): the other replicas' gradients were not added. {_CURE}",
                    exceeding(scene, "variables", step, pairs.values(), combined(factors, [others])),
                )


RULES: tuple[Rule, ...] = (Predicting(_ID, 30, _attempts), Predicting(_ID, EVIDENCE, _evidence))
