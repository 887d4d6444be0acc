"""Whether reruns change what a step adds to a variable because they change its gradient, or for another reason.

Noise turns a gradient that is rounding and nothing else, and an optimizer such as Adam makes a full step of it. A step
that a program scales by a clock, or by numbers from the operating system, is another one in each rerun as well. Its
gradient is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.evidence.arrays import wide
from harness.evidence.trace import RunTrace

if TYPE_CHECKING:
    import numpy as np

    Floats = np.ndarray[Any, np.dtype[np.floating[Any]]]
else:
    Floats = Any

__all__ = ["follows_gradient"]

_PART = 0.1
"""Of its size, by which noise moves an element of a gradient that is rounding: such a one is moved by all of it."""
_MOST = 0.5


def follows_gradient(
    reference: RunTrace, reruns: Sequence[RunTrace], name: str, step: int | None, draws: Sequence[Floats]
) -> bool:
    """Whether most of these changes are in elements whose gradient changes too; True where no gradient is known.

    Args:
        reference: without noise.
        reruns: with noise.
        name: of the variable.
        step: of the reference.
        draws: what each rerun has changed of what the step adds to it.
    """
    import numpy as np

    truth = _gradient(reference, name, step)
    every = [_gradient(rerun, name, step) for rerun in reruns]
    known = [each for each in every if each is not None]
    total = sum((each * each for each in draws), np.zeros(()))
    if truth is None or not known or any(each.shape != total.shape for each in (truth, *known)):
        return True
    with np.errstate(invalid="ignore", over="ignore"):
        shift = np.max([np.abs(each - truth) for each in known], axis=0)
        moved = ~(shift < _PART * np.abs(truth)) & (shift != 0)  # also what has become no number
    return float(total[moved].sum()) >= _MOST * float(total.sum())


def _gradient(run: RunTrace, name: str, step: int | None) -> Floats | None:
    """What a tape gave for a variable, which a process saw that has one replica."""
    seen = [each.seen for each in run.clients[0].steps if each.index == step and each.seen is not None]
    parts = [value.parts[0] for each in seen for value in each.gradients if value.name == name]
    return None if len(parts) != 1 else wide(parts[0].numpy())
