"""Rule: after the interruption the variables were restored, the optimizer's slots or its counter were not."""

from __future__ import annotations

from collections.abc import Iterable

from harness.judging.explain._initial_state import SHOWN, lost_state
from harness.judging.explain._prediction import Check, Predicting, evident, judged
from harness.judging.explain._response import span
from harness.judging.explain._resumption import SLOT, Resumption, last_of, resumption_of
from harness.judging.explain._view import CaseView, Floats
from harness.judging.explain.protocol import Attempt, Rule
from harness.judging.laws.updates_counted import COUNTERS
from harness.judging.wording import first_ones

SLOTS_NOT_RESTORED = "slots_not_restored"
_CURE = (
    "Save the optimizer with the model, tf.train.Checkpoint(model=model, optimizer=optimizer), call "
    "optimizer.build(model.trainable_variables) before restore, and end it with assert_consumed(), which raises for "
    "what was not restored. The save_weights of tf_keras leaves the slots out of `.h5` files; save a whole model "
    "or use BackupAndRestore."
)


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    found = resumption_of(view)
    if found is None or found.first == found.begin or found.found.in_epochs or _restored_wrongly(found):
        return
    yield _begun_anew(found)
    kinds: dict[str, list[str]] = {}
    for name in found.floats:
        if match := SLOT.search(name):
            kinds.setdefault(match[1], []).append(name)
    if kinds:
        yield _fresh_slots(found, kinds)
    else:
        yield _momentum_missing(found)
        yield _first_of_adam(found)
    yield _fresh_counter(found)


def _begun_anew(found: Resumption) -> Attempt | None:
    """What the resumed part begins with is known: the slots, and nothing else but a counter, are empty again."""
    lost = lost_state(found)
    if lost is None or not lost.kept or lost.memory or lost.others:
        return None
    slots = [name for name in lost.names if SLOT.search(name)]
    others = {name for name in lost.names if last_of(name) not in COUNTERS} - set(slots)
    if not slots or others:
        return None
    return evident(SLOTS_NOT_RESTORED, f"{_opening(found)}: {first_ones(lost.said, SHOWN)}.")


def _restored_wrongly(found: Resumption) -> bool:
    """The loss of the first resumed step comes from the restored variables, before any slot matters."""
    return bool(found.view.wrong("loss", found.first))


def _fresh_slots(found: Resumption, kinds: dict[str, list[str]]) -> Attempt | None:
    """Each slot lacks its decayed value of the step before: `run = reference - decay * previous`."""
    before, first, view = found.first - 1, found.first, found.view
    checks: list[Check] = []
    said = []
    for kind, slots in kinds.items():
        names = [name for name in slots if name in found.variables.get(before, {})]
        previous = [found.known(before, name) for name in names]
        decay = _factor(found, names, previous)
        if decay is None:
            return None
        for name, value in zip(names, previous, strict=True):
            checks.append(_check(found, name, view.truth("variables", first, name) - decay * value, 1 + decay))
        said.append(f"{kind!r} lacks {decay:.4g} times its value of step {before}{_sample(found, names[0])}")
    text = f"{_opening(found)}: after step {first} {'; '.join(said)}{_counted(found)}."
    return judged(SLOTS_NOT_RESTORED, text, checks)


def _momentum_missing(found: Resumption) -> Attempt | None:
    """No slots were recorded: the update lacks a share of the one before, which is what momentum adds."""
    before, first, view = found.first - 1, found.first, found.view
    if before - 1 not in found.variables or before not in found.variables:
        return None
    moved = [found.known(before, name) - found.known(before - 1, name) for name in found.floats]
    decay = _factor(found, found.floats, moved)
    if decay is None:
        return None
    text = (
        f"{_opening(found)}: the update of step {first} lacks {decay:.4g} times that of step {before}, which is what "
        f"momentum adds{_sample(found, found.floats[0])}{_counted(found)}."
    )
    checks = [
        _check(found, name, view.truth("variables", first, name) - decay * by, 1 + 2 * decay)
        for name, by in zip(found.floats, moved, strict=True)
    ]
    return judged(SLOTS_NOT_RESTORED, text, checks)


def _first_of_adam(found: Resumption) -> Attempt | None:
    """No slots were recorded: every element moved by the same amount, as in the first update of Adam."""
    import numpy as np

    before, view = found.first - 1, found.view
    if before not in found.variables or not found.floats:
        return None
    moved = {name: view.value("variables", found.first, name) - found.known(before, name) for name in found.floats}
    sizes = np.concatenate([np.abs(by).ravel() for by in moved.values()])
    sizes = sizes[sizes > 0]
    if sizes.size < 4:
        return None
    amount = float(np.median(sizes))
    text = (
        f"{_opening(found)}: in step {found.first} every element moved by {amount:.4g}, whatever its gradient, as in "
        f"the first update of Adam with empty slots{_counted(found)}."
    )
    checks = [_check(found, name, found.known(before, name) + amount * np.sign(by), 2) for name, by in moved.items()]
    return judged(SLOTS_NOT_RESTORED, text, checks)


def _fresh_counter(found: Resumption) -> Attempt | None:
    """The slots are right, and the iteration counter, which Adam and schedules need, began at 0 again."""
    if found.counter is None:
        return None
    _, observed, expected, anew = found.counter
    if observed != anew or observed == expected:
        return None
    return evident(SLOTS_NOT_RESTORED, f"{_opening(found)}{_counted(found)}.")


def _factor(found: Resumption, names: list[str], previous: list[Floats]) -> float | None:
    """The one factor by which wrong values lack what is given; None if there is none between 0 and 1."""
    if not names:
        return None
    view, first = found.view, found.first
    lacking = [view.truth("variables", first, name) - view.value("variables", first, name) for name in names]
    factors = span(lacking, [previous])
    return factors[0] if factors is not None and 0 < factors[0] <= 1 + 1e-6 else None


def _check(found: Resumption, name: str, predicted: Floats, gain: float) -> Check:
    view, first = found.view, found.first
    return Check(
        view.value("variables", first, name),
        predicted,
        view.truth("variables", first, name),
        gain * view.bound("variables", name, first),
        view.run["variables"][first][name].dtype,
    )


def _opening(found: Resumption) -> str:
    right = " with the right loss" if found.first in found.view.steps("loss") else ""
    return f"{found.where}{right}, but the optimizer's state was not restored"


def _counted(found: Resumption) -> str:
    if found.counter is None:
        return ""
    name, observed, expected, _ = found.counter
    return f"; {name!r} counts {observed}, expected {expected}" if observed != expected else ""


def _sample(found: Resumption, name: str) -> str:
    view, first = found.view, found.first
    observed, expected = view.value("variables", first, name).flat, view.truth("variables", first, name).flat
    return f" ({name!r} begins with {observed[0]:.6g}, expected {expected[0]:.6g})"


RULES: tuple[Rule, ...] = (Predicting(SLOTS_NOT_RESTORED, 3, _attempts, cure=_CURE),)
