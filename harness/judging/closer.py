"""Whether a run would show more if each of its steps were judged by itself.

That takes variables that are recorded at every step, and more runs of the reference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.evidence.observed import Observed, history
from harness.evidence.reference import Reference
from harness.judging.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["hides_more", "loses_sight"]

_SPREAD_MAX = 1e-3
"""As a share of a variable's size. A bound is some sixteen times the spread, and above a hundredth judges nothing."""

_GROWTH_MIN = 100.0
"""Against the first step. A training that rounds coarsely, in bfloat16 for example, does so from the start."""


def hides_more(verdict: Verdict, reference: Reference) -> bool:
    """Whether several steps are wrong, nothing tells which of them are by themselves, and no rule explains the numbers.

    Where a rule does, looking further would cost more than it tells.
    """
    first = verdict.first_divergence
    if verdict.outcome != "inconsistent" or verdict.explanation is not None or verdict.abstained is not None:
        return False
    if first is None or (at := first.step) is None or not _recorded_always(reference):
        return False
    return sum(step.index > at for step in reference.trace.clients[0].steps) > 1


def _recorded_always(reference: Reference) -> bool:
    return all(step.variables for step in reference.trace.clients[0].steps)


def loses_sight(reference: Reference) -> int | None:
    """The first step at which reruns with noise are far apart in at least half of all variables that change.

    None if it never comes to that. They were close at the first step, so each step by itself can be judged: such a
    training is chaotic, and rounding has been amplified from step to step.
    """
    if not _recorded_always(reference):
        return None
    truth = history(reference.trace, "variables")
    reruns = [history(rerun, "variables") for rerun in reference.perturbed]
    steps = [step for step in truth if step is not None]
    if len(steps) < 2 or not reruns:
        return None
    first = steps[0]
    begun = _spreads(truth[first], [rerun.get(first, {}) for rerun in reruns], {})

    def is_lost(step: int, sizes: Mapping[str, float]) -> bool:
        changing = [name for name in truth[step] if name in begun and _changed(truth[first][name], truth[step][name])]
        spreads = _spreads(truth[step], [rerun.get(step, {}) for rerun in reruns], sizes)
        far = [name for name in changing if spreads.get(name, 0.0) > max(_SPREAD_MAX, _GROWTH_MIN * begun[name])]
        return bool(far) and 2 * len(far) >= len(changing)

    # Most trainings are not chaotic, which the last step alone can say.
    if not is_lost(steps[-1], {}):
        return None
    sizes: dict[str, float] = {}
    lost = []
    for step in steps:
        # What has become small, as an optimizer's slot does where a training converges, is no less exact for that.
        sizes = {name: max(_size(value), sizes.get(name, 0.0)) for name, value in truth[step].items()}
        lost += [step] if is_lost(step, sizes) else []
    return lost[0] if lost and lost[-1] == steps[-1] else None


def _spreads(
    truth: Mapping[str, Observed], reruns: Sequence[Mapping[str, Observed]], sizes: Mapping[str, float]
) -> dict[str, float]:
    """How far each variable is from the reference in any of the reruns, as a share of its size or its own largest."""
    import numpy as np

    found = {}
    for name, value in truth.items():
        size = max(_size(value), sizes.get(name, 0.0))
        if value.array.dtype.kind != "f" or not 0 < size < float("inf"):
            continue
        others = (rerun[name].array for rerun in reruns if name in rerun)
        apart = [np.abs(other.astype(np.float64) - value.array) for other in others if other.shape == value.array.shape]
        most = max((float(np.max(each, initial=0.0, where=np.isfinite(each))) for each in apart), default=0.0)
        found[name] = most / size
    return found


def _size(value: Observed) -> float:
    import numpy as np

    return float(np.max(np.abs(value.array), initial=0.0))


def _changed(one: Observed, other: Observed) -> bool:
    import numpy as np

    return not np.array_equal(one.array, other.array)
