"""Rule: an accumulated update used the wrong divisor, or a slice twice or not at all."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from harness.judging.explain._prediction import Predicting, judged
from harness.judging.explain._response import combined, exceeding, excess, multiple, paired, scaled, slopes, span
from harness.judging.explain._view import CaseView, Floats
from harness.judging.explain.protocol import Attempt, Rule

_ID = "accumulation_off"
_FACTOR_MAX = 64
_CURE = (
    "Add each slice once and divide once: by the number of slices where each slice is divided by its own global batch "
    "(tf.nn.compute_average_loss with the slice's global_batch_size), by nothing where it is divided by that of all "
    "slices; never by the number of replicas as well. Keras: gradient_accumulation_steps=."
)


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    found = _groups(view)
    if found is None:
        yield from _factors(view)
    else:
        yield from _slices(view, found)


def _slices(view: CaseView, updates: list[list[int]]) -> Iterable[Attempt | None]:
    """The variables are off by whole numbers of slices, or by a fraction of all; what one slice does is known from "
    "the reference.
    """
    import numpy as np

    group = next((group for group in updates if view.wrong("variables", group[-1])), None)
    if group is None or any(view.wrong("gradients", step) for step in group):
        return
    step, pairs = group[-1], paired(view, group[-1])
    speed = _rate(view, updates, pairs)
    off = excess(view, "variables", step, pairs.values())
    terms = [[view.truth("gradients", part, name) for name in pairs] for part in group]
    total = [np.sum(arrays, axis=0) for arrays in zip(*terms, strict=True)]
    for basis in ([total], terms):
        factors = span(off, basis)
        if factors is None or speed is None:
            continue
        times = [1 + factor / speed for factor in factors]
        text = _all_times(view, times[0], len(group)) if len(times) == 1 else _each_times(times)
        if text is None:
            continue
        yield judged(
            _ID,
            f"The update of step {step} puts {len(group)} slices together (steps {group[0]} to {step}), whose "
            f"gradients are right, but {text}.",
            exceeding(view, "variables", step, pairs.values(), combined(factors, basis)),
        )


def _all_times(view: CaseView, times: float, slices: int) -> str | None:
    for whole in range(2, _FACTOR_MAX + 1):
        named = {view.replicas: "the number of replicas", slices: "the number of slices",
                 slices * view.replicas: "slices times replicas"}.get(whole, "a whole number")  # fmt: skip
        if abs(times - whole) <= _WHOLE * whole:
            return f"their sum is {whole} times too large ({whole} is {named}): it is not divided by that"
        if abs(times * whole - 1) <= _WHOLE:
            return f"their sum is {whole} times too small ({whole} is {named}): it is divided by that once too often"
    return None


def _each_times(times: list[float]) -> str | None:
    whole = [round(factor) for factor in times]
    if any(abs(factor - count) > _WHOLE for factor, count in zip(times, whole, strict=True)) or min(whole) < 0:
        return None
    return f"the slices count {', '.join(map(str, whole))} times instead of once each"


def _factors(view: CaseView) -> Iterable[Attempt | None]:
    """Slices within a step: all gradients are off by one whole number that is neither replicas nor workers."""
    found = slopes(view)
    if found is None:
        return
    observable, step, names = found
    values = [view.value(observable, step, name) for name in names]
    times = multiple(values, [view.truth(observable, step, name) for name in names])
    larger = times >= 1
    whole = round(times if larger else 1 / times) if times > 1 / _FACTOR_MAX else 0
    run = view.case.run
    workers = {seen.worker for seen in run.clients[0].seen if seen.worker is not None}  # of a coordinator
    if not 2 <= whole <= _FACTOR_MAX or whole in (view.replicas, run.header.clients, len(workers)):
        return
    text = f"times {whole}" if larger else f"divided by {whole}"
    yield judged(
        _ID,
        f"At step {step} every gradient is the reference's {text}, which is neither the number of replicas nor of "
        f"workers. If the step accumulates {whole} slices, their sum has the wrong divisor (the numbers prove the "
        f"factor, not its origin).",
        scaled(view, observable, step, names, float(whole) if larger else 1 / whole),
    )


RULES: tuple[Rule, ...] = (Predicting(_ID, 65, _attempts, cure=_CURE),)


# Updates that put several recorded steps together: which these are, and how the reference moves with their sum.


_WHOLE = 1e-3
"""How far a fitted number may be from a whole number, or the reference from its fit, relative to itself."""


def _groups(view: CaseView) -> list[list[int]] | None:
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


def _rate(view: CaseView, updates: list[list[int]], pairs: dict[str, str]) -> float | None:
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
        if factors is not None and _residual(moves, basis, factors) <= _WHOLE:
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
