"""Rule: an accumulated update used the wrong divisor, or a slice twice or not at all."""

from __future__ import annotations

from collections.abc import Iterable

from harness.judging.explain._prediction import Predicting, judged
from harness.judging.explain._response import combined, exceeding, excess, multiple, paired, scaled, slopes, span
from harness.judging.explain._slices import WHOLE, groups, rate
from harness.judging.explain._view import CaseView
from harness.judging.explain.protocol import Attempt, Rule

__all__ = ["RULES"]

_ID = "accumulation_off"
_FACTOR_MAX = 64
_CURE = (
    "Add each slice once and divide once: by the number of slices where each slice is divided by its own global batch "
    "(tf.nn.compute_average_loss with the slice's global_batch_size), by nothing where it is divided by that of all "
    "slices; never by the number of replicas as well. Keras: gradient_accumulation_steps=."
)


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    found = groups(view)
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
    speed = rate(view, updates, pairs)
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
        if abs(times - whole) <= WHOLE * whole:
            return f"their sum is {whole} times too large ({whole} is {named}): it is not divided by that"
        if abs(times * whole - 1) <= WHOLE:
            return f"their sum is {whole} times too small ({whole} is {named}): it is divided by that once too often"
    return None


def _each_times(times: list[float]) -> str | None:
    whole = [round(factor) for factor in times]
    if any(abs(factor - count) > WHOLE for factor, count in zip(times, whole, strict=True)) or min(whole) < 0:
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
