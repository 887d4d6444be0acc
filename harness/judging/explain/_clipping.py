"""Clipping that shows only in what an optimizer made of gradients that were recorded before it, and what norms are."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from harness.judging.explain._prediction import check, judged
from harness.judging.explain._reductions import factor_of_truth, factors_of
from harness.judging.explain._response import combined, exceeding, excess, paired, span
from harness.judging.explain._view import CaseView, Floats
from harness.judging.explain.protocol import Attempt

SAME_NORM = 1e-4
"""Relative difference up to which two norms are taken for the same threshold; only unequal ones tell clipping from "
"not."""


def norm_of(arrays: Sequence[Floats]) -> float:
    """The global norm."""
    return math.sqrt(sum(float((array**2).sum()) for array in arrays))


def listed(norms: Sequence[float]) -> str:
    """For a text."""
    return ", ".join(f"{norm:.6g}" for norm in norms)


def _unseen(view: CaseView, moments: bool) -> tuple[int, dict[str, str], list[list[Floats]]] | None:
    """Gradients were recorded before clipping and are right: the step, what follows them, and the parts by replica."""
    step = view.origin("variables")
    if step is None or step not in view.steps("gradients") or view.wrong("gradients", step) or view.drifted(step):
        return None
    pairs = paired(view, step, moments)
    parts = [part for name in pairs if (part := view.parts("gradients", step, name)) is not None]
    if view.replicas < 2 or not pairs or len(parts) < len(pairs):
        return None
    return step, pairs, [[part[replica] for part in parts] for replica in range(view.replicas)]


def in_moments(rule: str, view: CaseView) -> Attempt | None:
    """The first moments hold a sum of parts, each with the factor that brings it down to one common norm."""
    found = _unseen(view, moments=True)
    if found is None or found[0] != min(view.steps("variables")):
        return None
    step, pairs, parts = found
    factors = span([view.value("variables", step, name) for name in pairs.values()], parts)
    whole = span(
        [view.truth("variables", step, name) for name in pairs.values()],
        [[view.truth("gradients", step, name) for name in pairs]],
    )
    if factors is None or whole is None:
        return None
    norms = [norm_of(part) for part in parts]
    reached = [abs(factor) * norm for factor, norm in zip(factors, norms, strict=True)]
    threshold = abs(whole[0]) * norm_of([view.truth("gradients", step, name) for name in pairs])
    same = [any(math.isclose(norm, threshold * k, rel_tol=SAME_NORM) for k in (1, view.replicas)) for norm in reached]
    if not any(same) or any(norm > max(reached) * (1 + SAME_NORM) for norm in reached):
        return None
    return judged(
        rule,
        f"The gradients are right, but what the optimizer has summed up after step {step} holds the replicas' "
        f"gradients, whose norms are {listed(norms)}, with different factors: their norms there are "
        f"{listed(reached)}, and that of the reference's gradient is {threshold:.6g}. Each replica's gradient was "
        f"clipped by itself.",
        [
            check(view, "variables", step, name, guess)
            for name, guess in zip(pairs.values(), combined(factors, parts), strict=True)
        ],
    )


def in_variables(rule: str, view: CaseView) -> Attempt | None:
    """The variables are off by unequal amounts of each part, the larger a gradient the more."""
    import numpy as np

    found = _unseen(view, moments=False)
    if found is None:
        return None
    step, pairs, parts = found
    factors = span(excess(view, "variables", step, pairs.values()), parts)
    norms = [norm_of(part) for part in parts]
    if factors is None or max(factors) - min(factors) <= SAME_NORM * max(map(abs, factors)):
        return None
    order = np.argsort(norms)
    if any(factors[b] < factors[a] - SAME_NORM * max(map(abs, factors)) for a, b in itertools.pairwise(order)):
        return None
    if not _may_be_clipped(view, step, list(pairs), norms):
        return None
    return judged(
        rule,
        f"The gradients are right, but the variables after step {step} lack {', '.join(f'{f:.3g}' for f in factors)} "
        f"times the gradient of each replica, whose norms are {listed(norms)}: the larger, the more is cut off, as "
        f"if each replica's gradient was clipped by itself.",
        exceeding(view, "variables", step, pairs.values(), combined(factors, parts)),
    )


def _may_be_clipped(view: CaseView, step: int, names: Sequence[str], norms: Sequence[float]) -> bool:
    """Whether what left the reduction holds every shortened gradient with one norm, which no other one exceeds."""
    factors = factors_of(view, step, names)
    if factors is None:
        return True  # it was not seen
    reached = [abs(factor) * norm for factor, norm in zip(factors, norms, strict=True)]
    whole = max(map(abs, factors)) * (1 - SAME_NORM)
    shortened = [norm for factor, norm in zip(factors, reached, strict=True) if abs(factor) < whole]
    truth = factor_of_truth(view, step, names)
    if truth is not None:
        # On one device the gradient is shortened to the same norm, or not at all; the parts may have been averaged.
        norm = abs(truth) * norm_of([view.truth("gradients", step, name) for name in names])
        pairs = [(norm, max(reached)), (abs(truth), max(map(abs, factors)))]
        if not any(_same(one, other * k) for one, other in pairs for k in (1, view.replicas)):
            return False
    return all(_same(norm, max(reached)) for norm in shortened)


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=SAME_NORM)
