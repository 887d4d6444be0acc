"""The gradients of replicas as they were seen in a run, and how these were put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.evidence.trace import Seen

if TYPE_CHECKING:
    import numpy as np

    Gradients = list[np.ndarray]


NEAR = 0.05
"""So much of a gradient may be left over where it counts as a multiple of another: bfloat16 has eight bits, and what is
asked for are factors of two and more, not errors, which laws find.
"""


def gradients_of(seen: Seen) -> Gradients:
    """The gradients of the first local replica, in the first step of a call; empty if none were seen."""
    return next(iter(parts_of(seen)), [])


def parts_of(seen: Seen) -> list[Gradients]:
    """The gradients of each local replica, in the first step of a call."""
    count = len(seen.gradients[0].parts) if seen.gradients else 0
    first = seen.gradients[: _inner(seen)]
    return [[value.parts[index].numpy().astype("f8") for value in first] for index in range(count)]


def _inner(seen: Seen) -> int:
    """How many gradients are those of the first step, of a call in which several steps were made one after another."""
    shapes = [value.parts[0].shape for value in seen.gradients]
    for size in range(1, len(shapes)):
        repeats = len(shapes) // size
        named = seen.gradients[size].name == f"{seen.gradients[0].name}#2"
        if named and len(shapes) % size == 0 and shapes == shapes[:size] * repeats:
            return size
    return len(shapes)


def reduced_of(seen: Seen) -> Gradients:
    """What left reductions in a step, whatever it was."""
    return [part.numpy().astype("f8") for value in seen.reduced for part in value.parts]


def share_of(reduced: Gradients, whole: Gradients, replicas: int, near: float = NEAR) -> float | None:
    """Whether a reduction has added up or averaged the replicas' gradients: 1, or one by their number.

    What leaves a reduction bears no name. Not every gradient of it may have been seen, nor all that leaves it; a loss
    that is reduced besides is as large as some gradient by chance, but has another shape.
    """
    import numpy as np

    wanted = [(array.shape, size) for array in whole if (size := float(np.linalg.norm(array)))]
    sizes = [(array.shape, float(np.linalg.norm(array))) for array in reduced]
    if not wanted or not sizes:
        return None
    found = []
    for share in dict.fromkeys((1.0, 1.0 / replicas)):
        fits = np.array(
            [
                [shape == other and abs(size - share * one) <= near * share * one for other, one in wanted]
                for shape, size in sizes
            ]
        )
        if fits.any(axis=0).all() or fits.any(axis=1).all():
            found.append(share)
    return found[0] if len(found) == 1 else None


def added(parts: Sequence[Gradients]) -> Gradients:
    """Gradients that are added up, each over those who have it."""
    return [sum(arrays[1:], arrays[0]) for arrays in zip(*parts, strict=True)]


def multiple(mine: Gradients, truth: Gradients, near: float = NEAR) -> float | None:
    """The number by which all of the truth is multiplied in mine; None if there is none."""
    import numpy as np

    if len(mine) != len(truth) or not mine:
        return None
    if any(one.shape != other.shape for one, other in zip(mine, truth, strict=True)):
        return None
    one, other = (np.concatenate([array.ravel() for array in each]) for each in (mine, truth))
    square = float(other @ other)
    if not square or not np.isfinite(one).all() or not np.isfinite(other).all():
        return None
    factor = float(one @ other) / square
    return factor if float(np.linalg.norm(one - factor * other)) <= near * float(np.linalg.norm(one)) else None
