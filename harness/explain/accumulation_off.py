"""Rule: an accumulated update used the wrong divisor, or a slice twice or not at all."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from harness.explain._prediction import Predicting, judged
from harness.explain._response import combined, exceeding, excess, paired, scaled, slopes, span
from harness.explain._scene import Floats, Scene
from harness.explain.protocol import Attempt, Rule

__all__ = ["RULES"]

_ID = "accumulation_off"
_FACTOR_MAX = 64
_WHOLE = 1e-3
"""How far a fitted number of times may be from a whole number, or from one over it."""
_CURE = (
    "Add each slice once and divide once: by the number of slices where each slice is divided by its own global batch "
    "(tf.nn.compute_average_loss with the slice's global_batch_size), by nothing where it is divided by that of all "
    "slices; never by the number of replicas as well. Keras: gradient_accumulation_steps=."
)


def _attempts(scene: Scene) -> Iterable[Attempt | None]:
    groups = _groups(scene)
    if groups is None:
        yield from _factors(scene)
    else:
        yield from _slices(scene, groups)


def _groups(scene: Scene) -> list[list[int]] | None:
    """The steps that make up each update of the reference, when there are several to one."""
    import numpy as np

    steps = scene.steps("variables")
    pairs = paired(scene, steps[0]) if steps and steps == scene.steps("gradients") else {}
    if not pairs:
        return None

    def moved(step: int) -> bool:
        now, then = ([scene.truth("variables", k, name) for name in pairs.values()] for k in (step, step - 1))
        return any(not np.array_equal(a, b) for a, b in zip(now, then, strict=True))

    updates = [step for step in steps[1:] if step - 1 in steps and moved(step)]
    gaps = {b - a for a, b in itertools.pairwise(updates)}
    size = gaps.pop() if len(gaps) == 1 else updates[0] if len(updates) == 1 else 0
    return [list(range(step - size + 1, step + 1)) for step in updates] if size > 1 and updates[0] >= size else None


def _slices(scene: Scene, groups: list[list[int]]) -> Iterable[Attempt | None]:
    """The variables are off by whole numbers of slices, or by a fraction of all; what one slice does is known from "
    "the reference.
    """
    import numpy as np

    group = next((group for group in groups if scene.wrong("variables", group[-1])), None)
    if group is None or any(scene.wrong("gradients", step) for step in group):
        return
    step, pairs = group[-1], paired(scene, group[-1])
    rate = _rate(scene, groups, pairs)
    off = excess(scene, "variables", step, pairs.values())
    terms = [[scene.truth("gradients", part, name) for name in pairs] for part in group]
    total = [np.sum(arrays, axis=0) for arrays in zip(*terms, strict=True)]
    for basis in ([total], terms):
        factors = span(off, basis)
        if factors is None or rate is None:
            continue
        times = [1 + factor / rate for factor in factors]
        text = _all_times(scene, times[0], len(group)) if len(times) == 1 else _each_times(times)
        if text is None:
            continue
        yield judged(
            _ID,
            f"The update of step {step} puts {len(group)} slices together (steps {group[0]} to {step}), whose "
            f"gradients are right, but {text}. {_CURE}",
            exceeding(scene, "variables", step, pairs.values(), combined(factors, basis)),
        )


def _rate(scene: Scene, groups: list[list[int]], pairs: dict[str, str]) -> float | None:
    """How far the reference moves per unit of summed gradient, if it moves by SGD or by momentum."""
    import numpy as np

    size = len(groups[0])
    for momentum in (False, True):
        known = [group for group in groups if group[0] - 1 - momentum * size in scene.steps("variables")]
        places = [(group, gradient, name) for group in known for gradient, name in pairs.items()]
        moves = [_move(scene, name, group[-1], size) for group, _, name in places]
        sums: list[Floats] = [
            np.sum([scene.truth("gradients", step, gradient) for step in group], axis=0)
            for group, gradient, _ in places
        ]
        before = [_move(scene, name, group[0] - 1, size) for group, _, name in places] if momentum else []
        basis = [sums, before] if momentum else [sums]
        factors = span(moves, basis) if moves else None
        if factors is not None and _residual(moves, basis, factors) <= _WHOLE:
            return factors[0]
    return None


def _move(scene: Scene, name: str, step: int, size: int) -> Floats:
    return scene.truth("variables", step, name) - scene.truth("variables", step - size, name)


def _residual(target: list[Floats], basis: list[list[Floats]], factors: list[float]) -> float:
    import numpy as np

    errors = [np.max(np.abs(t - w), initial=0.0) for t, w in zip(target, combined(factors, basis), strict=True)]
    return float(max(errors) / max(np.max(np.abs(t), initial=0.0) for t in target))


def _all_times(scene: Scene, times: float, slices: int) -> str | None:
    for whole in range(2, _FACTOR_MAX + 1):
        named = {scene.replicas: "the number of replicas", slices: "the number of slices",
                 slices * scene.replicas: "slices times replicas"}.get(whole, "a whole number")  # fmt: skip
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


def _factors(scene: Scene) -> Iterable[Attempt | None]:
    """Slices within a step: all gradients are off by one whole number that is neither replicas nor workers."""
    found = slopes(scene)
    if found is None:
        return
    observable, step, names = found
    for whole in range(2, _FACTOR_MAX + 1):
        if whole in (scene.replicas, scene.case.run.header.clients):
            continue
        for times, text in ((float(whole), f"times {whole}"), (1 / whole, f"divided by {whole}")):
            yield judged(
                _ID,
                f"At step {step} every gradient is the reference's {text}, which is neither the number of replicas "
                f"nor of workers. If the step accumulates {whole} slices, their sum has the wrong divisor (the "
                f"numbers prove the factor, not its origin). {_CURE}",
                scaled(scene, observable, step, names, times),
            )


RULES: tuple[Rule, ...] = (Predicting(_ID, 65, _attempts),)
