"""How variables follow gradients: which belongs to which, and what stands in where no gradients were recorded."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence

from harness.judging.explain._prediction import Check, check
from harness.judging.explain._view import CaseView, Floats

_FIRST_MOMENT = re.compile(r"(?:^|[/_])(?:m|momentum)(?:/|#|$)")

_ADAM_EPSILONS = (0.0, 1e-8, 1e-7, 1e-7 / 0.001**0.5)
"""What may stand next to |g|: the epsilons of TensorFlow and Keras, before and after the bias correction by the square
root of 1 - beta_2.
"""

_ROUNDED = 1e-6
"""As a share of the largest factor: what is found from rounded values in place of none."""


def is_first_moment(name: str) -> bool:
    """Whether a variable is an optimizer's running sum or mean of gradients, by the name that Keras gives it.

    Keras 3 writes `adam/dense_kernel_momentum`, tf_keras `Adam/m/dense/kernel` or `Adam/dense/kernel/m`.
    """
    return _FIRST_MOMENT.search(name) is not None


def paired(view: CaseView, step: int, moments: bool = False) -> dict[str, str]:
    """The variable of each gradient: the one of its name and shape, else the next of its shape in recorded order.

    Variables without names are numbered among all, and gradients among those that a tape was asked for. Instead of the
    variables, their first moments in the optimizer can be had. Empty where not every gradient has one.
    """
    variables = [name for name in view.names("variables", step) if is_first_moment(name) == moments]
    rest = iter(variables)
    found: dict[str, str] = {}
    for gradient in view.names("gradients", step):
        shape = view.truth("gradients", step, gradient).shape
        if gradient in variables and view.truth("variables", step, gradient).shape == shape:
            found[gradient] = gradient
            continue
        following = (name for name in rest if view.truth("variables", step, name).shape == shape)
        if (name := next(following, None)) is None:
            return {}
        found[gradient] = name
    return found


def responses(step: int) -> list[tuple[str, Callable[[Floats], Floats]]]:
    """How an update depends on the gradient while all else is equal.

    Linearly, or in Adam's first step as g / (|g| + epsilon).
    """
    import numpy as np

    def adam(epsilon: float) -> Callable[[Floats], Floats]:
        return lambda g: np.divide(g, np.abs(g) + epsilon, out=np.zeros_like(g), where=g != 0)

    first = [("Adam's first update from", adam(epsilon)) for epsilon in _ADAM_EPSILONS]
    return [("a constant times", lambda g: g), *(first if step == 1 else [])]


def slopes(view: CaseView) -> tuple[str, int, list[str]] | None:
    """Where wrong gradients first show: (observable, step, names).

    Without recorded gradients the optimizer's first moments stand in at the first step, after which they are a constant
    times the gradient: they begin at zero.
    """
    if view.steps("gradients"):
        step = view.origin("gradients")
        return None if step is None else ("gradients", step, view.names("gradients", step))
    step = min(view.steps("variables"), default=0)
    names = [name for name in view.names("variables", step) if is_first_moment(name)]
    return ("variables", step, names) if set(names) & set(view.wrong("variables", step)) else None


def scaled(view: CaseView, observable: str, step: int, names: Sequence[str], factor: float) -> list[Check]:
    """The prediction that values are the reference's times a factor."""
    return [check(view, observable, step, name, factor * view.truth(observable, step, name), factor) for name in names]


def excess(view: CaseView, observable: str, step: int, names: Iterable[str]) -> list[Floats]:
    """By how much values exceed the reference's."""
    return [view.value(observable, step, name) - view.truth(observable, step, name) for name in names]


def exceeding(
    view: CaseView, observable: str, step: int, names: Iterable[str], by: Iterable[Floats], gain: float = 1.0
) -> list[Check]:
    """The prediction by how much values exceed the reference's."""
    return [
        check(view, observable, step, name, view.truth(observable, step, name) + more, gain)
        for name, more in zip(names, by, strict=True)
    ]


def combined(factors: Sequence[float], basis: Sequence[Sequence[Floats]]) -> list[Floats]:
    """The sum over k of `factors[k]` times `basis[k]`, one array per target."""
    import numpy as np

    return [
        np.sum([f * a for f, a in zip(factors, arrays, strict=True)], axis=0) for arrays in zip(*basis, strict=True)
    ]


def all_count(factors: Sequence[float]) -> bool:
    """Whether all are positive, by more than the rounding of the values from which they were found.

    One that is as good as none says that the other replicas alone have the target: whatever makes each replica take
    something of its own, such as its largest example, does that of the one which has the right one.
    """
    return min(factors) > _ROUNDED * max(factors)


def multiple(values: Sequence[Floats], truths: Sequence[Floats]) -> float:
    """The factor with which all of the second come closest to the first; 0 where there is none."""
    along = sum(float((value * truth).sum()) for value, truth in zip(values, truths, strict=True))
    size = sum(float((truth * truth).sum()) for truth in truths)
    return along / size if size > 0 and math.isfinite(along / size) else 0.0


def span(target: Sequence[Floats], basis: Sequence[Sequence[Floats]]) -> list[float] | None:
    """The factors, common to all arrays, with which a sum of basis arrays comes closest to the target.

    `basis[k]` has one array per target. None when there are too few numbers to prove anything: at least two more than
    factors, and a basis that determines them.
    """
    import numpy as np

    columns = [np.concatenate([array.ravel() for array in arrays]) for arrays in basis]
    rows = np.concatenate([array.ravel() for array in target])
    if not np.all(np.isfinite(rows)) or rows.size < len(columns) + 2:
        return None
    matrix = np.stack(columns, axis=1)
    if not np.all(np.isfinite(matrix)):
        return None
    norms = np.linalg.norm(matrix, axis=0)
    if not norms.all():
        return None
    factors, _, rank, _ = np.linalg.lstsq(matrix / norms, rows, rcond=1e-6)
    return None if rank < len(columns) else [float(factor) for factor in factors / norms]
