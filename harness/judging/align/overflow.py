"""Steps in which one device overflows and replicas do not, since each of them adds up fewer examples.

A program that scales its loss for 16 bits leaves such a step out, and lowers the scale. Replicas that sum in finite
numbers take the step, rightly so. What did not overflow on one device has to be what they have; where nothing is left,
nobody knows what the step should have been.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from harness.evidence.arrays import wide
from harness.evidence.trace import RunTrace, Seen

if TYPE_CHECKING:
    import numpy as np

    Floats = np.ndarray[Any, np.dtype[np.float64]]
else:
    Floats = Any


_KNOWN_MIN = 0.1
"""Of the elements as many have to be numbers on one device."""
_ALIKE = 0.05
"""Of its size: sums in 16 bits are rounded, and a factor of two or more is none."""
_WHY = (
    "the gradients of one device overflow, and those of the replicas do not; begin with a smaller loss scale, or "
    "verify more steps, until the scale has come down"
)


def overflown(reference: RunTrace, run: RunTrace) -> dict[int, str]:
    """By step of the reference why it is apart: its gradients are not finite, and in the run all are."""
    theirs = [{step.index: step.seen for step in client.steps if step.seen is not None} for client in run.clients]
    found = {}
    for step in reference.clients[0].steps:
        seen = [each[step.index] for each in theirs if step.index in each]
        if step.seen is not None and len(seen) == len(theirs) and _overflows(step.seen, seen):
            found[step.index] = _WHY
    return found


def _overflows(one: Seen, replicas: Sequence[Seen]) -> bool:
    import numpy as np

    if all(np.isfinite(value.parts[0].numpy()).all() for value in one.gradients):  # as nearly always
        return False
    known = list(_pairs(one, replicas))
    if not known or not all(np.isfinite(part).all() for _, parts in known for part in parts):
        return False
    there = sum(int(np.isfinite(truth).sum()) for truth, _ in known)
    if not there:
        return True
    enough = there >= _KNOWN_MIN * sum(truth.size for truth, _ in known) and any(
        truth[np.isfinite(truth)].any() for truth, _ in known
    )
    return enough and any(
        all(_alike(truth, np.sum(parts, axis=0) / count) for truth, parts in known) for count in (1, len(known[0][1]))
    )


def _pairs(one: Seen, replicas: Sequence[Seen]) -> Iterator[tuple[Floats, list[Floats]]]:
    """Each gradient of one device, and its parts on all replicas."""
    for value in one.gradients:
        parts = [
            wide(part.numpy())
            for seen in replicas
            for each in seen.gradients
            if each.name == value.name
            for part in each.parts
        ]
        truth = wide(value.parts[0].numpy())
        if parts and all(part.shape == truth.shape for part in parts):
            yield truth, parts


def _alike(truth: Floats, found: Floats) -> bool:
    """Whether they are the same where one device has numbers."""
    import numpy as np

    there = np.isfinite(truth)
    difference = found[there] - truth[there]
    return bool(np.sum(difference**2) <= _ALIKE**2 * np.sum(truth[there] ** 2))
