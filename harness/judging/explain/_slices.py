"""Updates that put several recorded steps together: which these are, and how the reference moves with their sum."""

from __future__ import annotations

import itertools

from harness.judging.explain._response import combined, paired, span
from harness.judging.explain._view import CaseView, Floats

__all__ = ["WHOLE", "groups", "rate"]

WHOLE = 1e-3
"""How far a fitted number may be from a whole number, or the reference from its fit, relative to itself."""


def groups(view: CaseView) -> list[list[int]] | None:
    """The steps that make up each update of the reference, when there are several to one."""
    import numpy as np

    steps = view.steps("variables")
    pairs = paired(view, steps[0]) if steps and steps == view.steps("gradients") else {}
    both = {"gradients": set(pairs), "variables": set(pairs.values())}
    if not pairs or any(not names <= set(view.names(what, k)) for what, names in both.items() for k in steps):
        return None  # nothing to follow, or several models that are trained in turns

    def moved(step: int) -> bool:
        return any(np.any(_moved(view, name, step)) for name in pairs.values())

    updates = [step for step in steps[1:] if step - 1 in steps and moved(step)]
    gaps = {b - a for a, b in itertools.pairwise(updates)}
    size = gaps.pop() if len(gaps) == 1 else updates[0] if len(updates) == 1 else 0
    return [list(range(step - size + 1, step + 1)) for step in updates] if size > 1 and updates[0] >= size else None


def rate(view: CaseView, updates: list[list[int]], pairs: dict[str, str]) -> float | None:
    """How far the reference moves per unit of summed gradient, if it moves by SGD or by momentum."""
    import numpy as np

    size = len(updates[0])
    for momentum in (False, True):
        known = [group for group in updates if group[0] - 1 - momentum * size in view.steps("variables")]
        places = [(group, gradient, name) for group in known for gradient, name in pairs.items()]
        moves = [_moved(view, name, group[-1]) for group, _, name in places]
        sums: list[Floats] = [
            np.sum([view.truth("gradients", step, gradient) for step in group], axis=0) for group, gradient, _ in places
        ]
        before = [_before(view, name, group[0], size) for group, _, name in places] if momentum else []
        basis = [sums, before] if momentum else [sums]
        factors = span(moves, basis) if moves else None
        if factors is not None and _residual(moves, basis, factors) <= WHOLE:
            return factors[0]
    return None


def _moved(view: CaseView, name: str, step: int) -> Floats:
    """By how much the reference moves a variable in a step, from what that begins with."""
    return view.truth("variables", step, name) - view.begun(step, name)


def _before(view: CaseView, name: str, step: int, size: int) -> Floats:
    """By how much an update moved a variable which ended when a step began."""
    return view.begun(step, name) - view.begun(step - size, name)


def _residual(target: list[Floats], basis: list[list[Floats]], factors: list[float]) -> float:
    import numpy as np

    errors = [np.max(np.abs(t - w), initial=0.0) for t, w in zip(target, combined(factors, basis), strict=True)]
    return float(max(errors) / max(np.max(np.abs(t), initial=0.0) for t in target))
