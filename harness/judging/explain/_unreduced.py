"""Models of updates by gradients that were not reduced, where no more is known than this."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from harness.judging.explain._prediction import check, evident, judged
from harness.judging.explain._reductions import factors_of, is_of_others
from harness.judging.explain._response import (
    combined,
    exceeding,
    excess,
    is_first_moment,
    multiple,
    paired,
    responses,
    scaled,
    span,
)
from harness.judging.explain._view import CaseView, Floats
from harness.judging.explain.protocol import Attempt

_FEW = 1e-3
"""A share of the largest factor that is as good as none."""


def _summed_means(view: CaseView, step: int) -> bool:
    """Whether the parts are means, so that their recorded sum is the number of replicas too large."""
    attempt = judged("", "", scaled(view, "gradients", step, view.names("gradients", step), view.replicas))
    return attempt is not None and attempt.ratio <= 1


def one_gradient(rule: str, view: CaseView, step: int) -> Iterator[Attempt | None]:
    """All copies agree, and are off as one replica's gradient is off from the gradient of all.

    What is off may be some of the variables, such as the biases, where the others' gradients were reduced.
    """
    wrong = view.wrong("variables", step)
    every = paired(view, step)
    pairs = {gradient: name for gradient, name in every.items() if name in wrong}
    rest = f" Of {len(every)} variables the others are right." if len(pairs) < len(every) else ""
    parts = {name: view.parts("gradients", step, name) for name in pairs}
    if not pairs or any(part is None or len(part) != view.replicas for part in parts.values()):
        return
    if view.wrong("gradients", step) and not _summed_means(view, step):
        return  # the gradients themselves are wrong, and the variables follow
    if _was_changed(view, step, list(pairs)):
        return
    off = excess(view, "variables", step, pairs.values())
    right = [view.truth("gradients", step, name) for name in pairs]
    larger = combined(span(off, [right]) or [0.0], [right])
    for replica in range(view.replicas):
        if _is_multiple([(parts[name] or [])[replica] for name in pairs], right):
            continue
        for factor in (1, view.replicas):
            for text, response in responses(step):
                others = [
                    response(factor * (parts[name] or [])[replica]) - response(truth)
                    for name, truth in zip(pairs, right, strict=True)
                ]
                factors = span(off, [others])
                if factors is None or factors[0] >= 0:
                    continue
                yield judged(
                    rule,
                    f"After step {step} every copy of {', '.join(pairs.values())} is what replica {replica}'s gradient "
                    f"alone leads to ({text} it): the other replicas' gradients were not added.{rest}",
                    [
                        # Told from the same gradient with another factor, which is no replica's own.
                        replace(predicted, reference=predicted.reference + scaling)
                        for predicted, scaling in zip(
                            exceeding(view, "variables", step, pairs.values(), combined(factors, [others])),
                            larger,
                            strict=True,
                        )
                    ],
                )


def _is_multiple(own: Sequence[Floats], right: Sequence[Floats]) -> bool:
    """Whether a replica's gradient is the reference's with a factor, such as where each replica has the whole batch.

    Then it cannot be told from a sum: Adam's first update, to begin with, is the same for both.
    """
    import numpy as np

    times = multiple(own, right)
    rest = max(float(np.abs(mine - times * theirs).max(initial=0.0)) for mine, theirs in zip(own, right, strict=True))
    return rest <= _FEW * max(float(np.abs(mine).max(initial=0.0)) for mine in own)


def _was_changed(view: CaseView, step: int, names: list[str]) -> bool:
    """Whether a reduction was seen of what the program had made of the gradients: smaller ones by a branch, signs."""
    if is_of_others(view, step, names):
        return True
    factors = [abs(factor) for factor in factors_of(view, step, names) or ()]
    return bool(factors) and min(factors) > _FEW * max(factors) and min(factors) < (1 - _FEW) * max(factors)


def mean_is_right(rule: str, view: CaseView, step: int, drifting: list[str]) -> Attempt | None:
    """Where an update is linear in the gradient, the copies' mean is what the mean gradient would have led to."""
    import numpy as np

    moments = [name for name in drifting if is_first_moment(name)]
    names = moments or drifting
    return judged(
        rule,
        f"The copies of {', '.join(names)} drift apart at step {step}, and the mean over the copies is the reference's "
        f"value: each replica applied the gradient of its own examples.",
        [
            replace(
                check(view, "variables", step, name, view.truth("variables", step, name)),
                observed=np.mean(view.copies(step, name), axis=0),
                reference=view.copies(step, name)[0],
            )
            for name in names
        ],
    )


def all_moved(rule: str, view: CaseView, step: int, drifting: list[str]) -> Attempt | None:
    """Every copy has moved, and none to where it was or should be."""
    import numpy as np

    for name in drifting:
        copies, before = view.copies(step, name), [*map(_key, view.copies_before(step, name))]
        truth, bound = view.truth("variables", step, name), view.bound("variables", name, step)
        if copies[0].ndim and (
            len(set(map(_key, copies))) < len(copies)
            or any(_key(copy) in before or np.all(np.abs(copy - truth) <= bound) for copy in copies)
        ):
            return None
    if step != min(view.steps("variables")) or all(view.copies(step, name)[0].ndim == 0 for name in drifting):
        return None
    return evident(
        rule,
        f"All copies of {', '.join(drifting)} differ from each other and from the reference's from step {step} on, as "
        f"if each replica applied its own gradient. Without PerReplica gradients in record.step this is evidence, not "
        f"proof.",
    )


def _key(array: Floats) -> bytes:
    return array.tobytes()
