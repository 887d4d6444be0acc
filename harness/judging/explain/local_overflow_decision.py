"""Rule: whether to skip an update for overflow was decided from one replica's gradients."""

from __future__ import annotations

from collections.abc import Iterable

from harness.judging.explain._prediction import Predicting, evident
from harness.judging.explain._response import paired
from harness.judging.explain._view import CaseView, Floats
from harness.judging.explain.protocol import Attempt, Rule

_ID = "local_overflow_decision"
_CURE = (
    "Decide once for all replicas, from reduced gradients: sum first, "
    'tf.distribute.get_replica_context().all_reduce("sum", gradients), then tf.reduce_all(tf.math.is_finite(...)); or '
    "use the LossScaleOptimizer of tf_keras, which does. That of Keras 3 looks at the first replica only."
)


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    """At a step where the gradient is not finite the reference stands still, and the run does not, or not "
    "everywhere.
    """
    steps = [step for step in view.steps("gradients") if step in view.steps("variables")]
    step = next((step for step in steps if not _finite(view, step)), None)
    if view.replicas < 2 or step is None or step > view.horizon:
        return
    names = list(paired(view, step).values())
    if not names or not _skipped(view, step, names):
        return
    yield _each_by_itself(view, step, names)
    yield _for_all(view, step, names)


def _finite(view: CaseView, step: int) -> bool:
    """Whether all of the reference's gradients are."""
    import numpy as np

    return all(bool(np.isfinite(view.truth("gradients", step, name)).all()) for name in view.names("gradients", step))


def _skipped(view: CaseView, step: int, names: list[str]) -> bool:
    """Whether the reference kept its variables at a step; of the first step it is known that they are still finite."""
    import numpy as np

    if step - 1 not in view.steps("variables"):
        return all(bool(np.isfinite(view.truth("variables", step, name)).all()) for name in names)
    pairs = [(view.truth("variables", step, name), view.begun(step, name)) for name in names]
    return all(np.array_equal(now, then) for now, then in pairs)


def _overflowing(view: CaseView, step: int) -> list[int] | None:
    """The replicas whose own gradients are not finite."""
    import numpy as np

    found: set[int] = set()
    for name in view.names("gradients", step):
        parts = view.parts("gradients", step, name)
        if parts is None or len(parts) != view.replicas:
            return None
        found |= {replica for replica, part in enumerate(parts) if not np.isfinite(part).all()}
    return sorted(found)


def _moved(view: CaseView, step: int, names: list[str]) -> list[int]:
    """The replicas whose copies are not where the reference's variables still are."""
    import numpy as np

    def still(copy: Floats, name: str) -> bool:
        with np.errstate(invalid="ignore"):
            return bool(
                np.all(np.abs(copy - view.truth("variables", step, name)) <= view.bound("variables", name, step))
            )

    copies = {name: view.copies(step, name) for name in names}
    count = min(map(len, copies.values()))
    return [replica for replica in range(count) if any(not still(copies[name][replica], name) for name in names)]


def _each_by_itself(view: CaseView, step: int, names: list[str]) -> Attempt | None:
    """Exactly the replicas without overflow have moved."""
    over, moved = _overflowing(view, step), _moved(view, step, names)
    if not over or not moved or sorted([*over, *moved]) != list(range(view.replicas)):
        return None
    skipping, going = (", ".join(map(str, replicas)) for replicas in (over, moved))
    return evident(
        _ID,
        f"At step {step} the gradients of replica {skipping} are not finite. The reference skips that update; here "
        f"replica {skipping} skipped it and replica {going} applied it: each decided from its own gradients.",
    )


def _for_all(view: CaseView, step: int, names: list[str]) -> Attempt | None:
    """All copies have moved, although the reduced gradient is not finite."""
    import numpy as np

    over, moved = _overflowing(view, step), _moved(view, step, names)
    if not moved or (over is not None and (not over or len(over) == view.replicas)):
        return None
    broken = sum(not np.isfinite(view.value("variables", step, name)).all() for name in names)
    whose, who = "the reduced gradient is", "a replica without overflow"
    if over is not None:
        first = next(k for k in range(view.replicas) if k not in over)
        whose, who = f"the gradients of replica {', '.join(map(str, over))} are", f"replica {first}"
    return evident(
        _ID,
        f"At step {step} {whose} not finite. The reference skips that update; here it was applied"
        f"{f' ({broken} of {len(names)} variables are Inf or NaN now)' if broken else ''}, as if {who} had decided "
        f"for all.",
    )


RULES: tuple[Rule, ...] = (Predicting(_ID, 25, _attempts, cure=_CURE),)
