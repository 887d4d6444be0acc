"""Rule: each replica applied its own gradient, or all applied one replica's."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from harness.judging.explain._prediction import Predicting, check, judged
from harness.judging.explain._response import is_first_moment, paired, responses, span
from harness.judging.explain._unreduced import all_moved, mean_is_right, one_gradient
from harness.judging.explain._view import CaseView
from harness.judging.explain.protocol import Attempt, Rule

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


def _first(view: CaseView) -> tuple[int, list[str]] | None:
    """The first step after which variables are wrong or their copies differ, and which copies do."""
    steps = view.steps("variables") if view.replicas > 1 else []
    step = next(
        (step for step in steps if view.drifted(step) or _apart(view, step) or view.wrong("variables", step)), None
    )
    return None if step is None or view.by_hand(step) else (step, _apart(view, step))


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    found = _first(view)
    if found is None:
        return
    step, drifting = found
    if drifting:
        yield from _own_gradients(view, step, drifting)
        yield mean_is_right(_ID, view, step, drifting)
    else:
        yield from one_gradient(_ID, view, step)


def _apart(view: CaseView, step: int) -> list[str]:
    """Drifting variables, among them those of ON_READ synchronization that are trained.

    None where gradients are known, and all are of other variables: what drifts then is state, and no update.
    """
    known = bool(view.names("gradients", step))
    trained = paired(view, step).values() if known else ()
    on_read = [name for name in trained if view.on_read(step, name) and view.apart(step, name)]
    found = [*(name for name in view.drifted(step) if not _STATISTICS.search(name)), *on_read]
    return found if not known or any(name in trained or is_first_moment(name) for name in found) else []


def _own_gradients(view: CaseView, step: int, drifting: list[str]) -> Iterable[Attempt | None]:
    """The copies differ from their mean as the replicas' gradients differ from theirs."""
    import numpy as np

    pairs = {gradient: name for gradient, name in paired(view, step).items() if name in drifting}
    copies = [np.array(view.copies(step, name)) for name in pairs.values()]
    parts = [np.array(view.parts("gradients", step, name)) for name in pairs]
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
            f"replica's gradient, with the factor {-factors[0]:.3g} for all of them.{_rest(view, step, pairs)}",
            [
                replace(
                    check(view, "variables", step, name, copy.mean(axis=0) + factors[0] * slope),
                    observed=copy,
                    reference=np.broadcast_to(copy.mean(axis=0), copy.shape),
                )
                for name, copy, slope in zip(pairs.values(), copies, slopes, strict=True)
            ],
        )


def _rest(view: CaseView, step: int, pairs: dict[str, str]) -> str:
    every = paired(view, step)
    return f" Of {len(every)} variables the others do not." if len(pairs) < len(every) else ""


def _evidence(view: CaseView) -> Iterable[Attempt | None]:
    """Nothing recorded predicts the copies, but every one of them has moved, and none to where it should be."""
    found = _first(view)
    if found is not None and found[1]:
        yield all_moved(_ID, view, *found)


RULES: tuple[Rule, ...] = (Predicting(_ID, 30, _attempts, _evidence, cure=_CURE),)
