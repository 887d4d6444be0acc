"""Rule: the regularization term was counted once per replica."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

from harness.judging.explain._prediction import Predicting, check, judged
from harness.judging.explain._response import combined, is_first_moment, paired, responses, slopes, span
from harness.judging.explain._view import CaseView, Floats
from harness.judging.explain.protocol import Attempt, Rule

_ID = "regularizer_times_replicas"
_CURE = (
    "Every replica adds the whole term, and the replicas are summed. Scale it with "
    "tf.nn.scale_regularization_loss(tf.add_n(model.losses)) inside the replica function."
)

_STILL = 1e-6
"""Of a variable's size: what float32 numbers leave of no move at all."""


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    if view.replicas > 1:
        yield from _in_gradients(view)
        yield from _in_losses(view)


def _in_losses(view: CaseView) -> Iterable[Attempt | None]:
    """The excess of every loss is one constant times a norm of the variables before the step."""
    import numpy as np

    steps = [step for step in view.steps("loss") if step <= view.horizon and step - 1 in view.steps("variables")]
    excess = [view.value("loss", step, "loss") - view.truth("loss", step, "loss") for step in steps]
    if not steps or any(array.size != 1 for array in excess) or not any(view.wrong("loss", step) for step in steps):
        return
    norms: dict[str, Callable[[Floats], float]] = {
        "sum of squares": lambda array: float((array**2).sum()),
        "sum of magnitudes": lambda array: float(np.abs(array).sum()),
    }
    for which, names in _candidates(view, steps[0]):
        if any(not set(names) <= set(view.names("variables", step - 1)) for step in steps):
            continue  # of several models that are trained in turns
        for what, norm in norms.items():
            terms = [[np.array(sum(norm(view.begun(step, name)) for name in names)) for step in steps]]
            factors = span(excess, terms)
            if factors is None or factors[0] <= 0:
                continue
            guesses = [
                view.truth("loss", step, "loss") + factors[0] * term for step, term in zip(steps, terms[0], strict=True)
            ]
            checks = [check(view, "loss", step, "loss", guess) for step, guess in zip(steps, guesses, strict=True)]
            strength = factors[0] / (view.replicas - 1)
            yield judged(_ID, _losses_text(view, steps, f"the {what} of {which}", strength), checks)


def _losses_text(view: CaseView, steps: list[int], norm: str, strength: float) -> str:
    first = next(step for step in steps if view.wrong("loss", step))
    return (
        f"At every step from {steps[0]} to {steps[-1]} the loss exceeds the reference's by {view.replicas - 1} times "
        f"{strength:.3g} x {norm}: a regularization term that is counted {view.replicas} times, once per replica. "
        f"At step {first} it is {float(view.value('loss', first, 'loss').sum()):.6g} where "
        f"{float(view.truth('loss', first, 'loss').sum()):.6g} is right."
    )


def _candidates(view: CaseView, step: int) -> list[tuple[str, list[str]]]:
    """Sets of variables that programs regularize: the kernels, or everything that is trained."""
    names = [name for name in view.names("variables", step) if not is_first_moment(name)]
    arrays = {name: view.truth("variables", step, name) for name in names}
    trained = [name for name in paired(view, step).values() if name in arrays] if view.steps("gradients") else []
    kernels = [name for name in trained or names if arrays[name].ndim > 1]
    sets = [("the kernels", kernels), ("all trained variables", trained), ("all variables", names)]
    single = [(repr(name), [name]) for name in trained or names if arrays[name].ndim]
    return [(text, names) for text, names in (*sets, *single) if names]


def _in_gradients(view: CaseView) -> Iterable[Attempt | None]:
    """The excess of a gradient is one constant times its variable before the step.

    That variable is known from the step before; at the first step it is what the optimizer has moved the variable away
    from, by a constant times the gradient (SGD, momentum) or times its sign (Adam).
    """
    import numpy as np

    found = slopes(view)
    if found is None or found[0] != "gradients" or found[1] not in view.steps("variables"):
        return
    step, pairs = found[1], paired(view, found[1])
    wrong = [name for name in view.wrong("gradients", step) if name in pairs]
    if not wrong:
        return
    excess = [view.value("gradients", step, name) - view.truth("gradients", step, name) for name in wrong]
    before = step - 1 in view.steps("variables")
    if before and not {pairs[name] for name in wrong} <= set(view.names("variables", step - 1)):
        return  # the step before trained another model
    weights = [
        view.begun(step, pairs[name]) if before else view.truth("variables", step, pairs[name]) for name in wrong
    ]
    slope = [view.truth("gradients", step, name) for name in wrong]
    moves: list[list[list[Floats]]] = (
        [[]] if before else [[[response(g) for g in slope]] for _, response in responses(step)]
    )
    for kind, penalty in (("squares", lambda array: array), ("magnitudes", np.sign)):
        for moved in moves:
            basis = [[np.asarray(penalty(array)) for array in weights], *(moved if kind == "squares" else [])]
            factors = span(excess, basis)
            if factors is None or factors[0] <= 0 or any(factor < 0 for factor in factors[1:]):
                continue
            whole, rest = combined(factors, basis), combined([0.0, *factors[1:]], basis)
            if len(basis) > 1 and _size(rest) <= _STILL * _size(whole):
                continue  # the step has moved the variable: from where it is now no gradient was taken
            checks = [
                # Compared with the same without the term: that alone must not do.
                replace(check(view, "gradients", step, name, truth + guess, 2), reference=truth + other)
                for name, truth, guess, other in zip(wrong, slope, whole, rest, strict=True)
            ]
            strength = factors[0] / (view.replicas - 1) / (2 if kind == "squares" else 1)
            yield judged(_ID, _gradients_text(view, step, [pairs[name] for name in wrong], kind, strength), checks)


def _size(arrays: list[Floats]) -> float:
    import numpy as np

    return math.sqrt(sum(float(np.sum(array**2)) for array in arrays))


def _gradients_text(view: CaseView, step: int, names: list[str], kind: str, strength: float) -> str:
    return (
        f"The gradients of {', '.join(names)} at step {step} exceed the reference's by {view.replicas - 1} times the "
        f"gradient of {strength:.3g} x the sum of {kind} of these variables: a regularization term that is counted "
        f"{view.replicas} times, once per replica."
    )


RULES: tuple[Rule, ...] = (Predicting(_ID, 40, _attempts, cure=_CURE),)
