"""Whether what a program has made by hand of the parts that devices have means what one device has.

Parts mean one value as they do in `relations`, along each axis of the mesh: split, the same, or parts that add up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from harness.evidence.bindings import Bound

if TYPE_CHECKING:
    import numpy as np

    from harness.evidence.arrays import Array

    _Array = np.ndarray[Any, Any]


Meaning = frozenset[float]
"""By how much a value is too large, by all that its parts may mean: copies of a half are also summands of the whole."""

RIGHT = 1.0
WRONG: Meaning = frozenset()

_NEAR = 1e-3
"""Of the largest element: far more than a step is rounded by."""


def meant(groups: Sequence[Sequence[Bound]], truth: Bound, axes: tuple[int, int]) -> Meaning | None:
    """RIGHT, or the number of devices, or its inverse; WRONG where parts mean nothing; None where nobody knows.

    Args:
        groups: of each client the values that stand for one value of the reference.
        truth: that one.
        axes: how many devices the mesh has along each of its axes.
    """
    every = [bound for group in groups for bound in group]
    if truth.hidden or any(bound.hidden for bound in every):
        return None
    if any(bool(bound.shards) != bool(truth.shards) for bound in every):
        return None
    if truth.shards:
        return _of_mesh(every, truth, axes)
    count = len(truth.parts)
    if not count or any(len(bound.parts) % count for bound in every):
        return None
    found: Meaning | None = None
    for at, expected in enumerate(truth.parts):
        parts = [part for bound in every for part in _share(bound.parts, at, count)]
        if (meaning := _of_parts(parts, expected, axes)) is not None:
            found = meaning if found is None else found & meaning
    return found


def _share(parts: Sequence[Array], at: int, count: int) -> Sequence[Array]:
    each = len(parts) // count
    return parts[at * each : (at + 1) * each]


def _of_mesh(every: Sequence[Bound], truth: Bound, axes: tuple[int, int]) -> Meaning | None:
    """By the shards of a tensor that all clients have together: each is known, and its copies are equal."""
    import numpy as np

    shards: dict[tuple[int, ...], _Array] = {}
    expected = truth.parts[0].numpy()
    for bound in every:
        for shard, part in zip(bound.shards, bound.parts, strict=True):
            value = _wide(part)
            known = shards.setdefault(shard, value)
            if known.shape != value.shape or not _near(value, known):
                return WRONG
    counts = [1 + max(shard[axis] for shard in shards) for axis in range(expected.ndim)]
    if len(shards) != np.prod(counts, dtype=int):
        return None
    whole = np.empty(counts, dtype=object)
    for shard, value in shards.items():
        whole[shard] = value
    return frozenset(_factors(np.block(whole.tolist()) if counts else whole[()], expected, axes))


def _of_parts(parts: Sequence[Array], expected: Array, axes: tuple[int, int]) -> Meaning | None:
    if not expected.data.nbytes or not (expected.is_floating or len(expected.data) > 8):  # a count, or a number's place
        return None
    truth, values = _wide(expected), [_wide(part) for part in parts]
    return frozenset(factor for whole in _wholes(values, truth, axes) for factor in _factors(whole, truth, axes))


def _wholes(values: list[_Array], truth: _Array, axes: tuple[int, int]) -> Iterator[_Array]:
    """Everything that the parts may mean together."""
    import numpy as np

    if len(values) == 1:
        yield values[0]
        yield from _by_axes(values[0], truth)
        return
    yield from _joined(values)
    if 1 < axes[0] < len(values) and len(values) == axes[0] * axes[1]:
        rows = [list(_joined(values[at : at + axes[1]])) for at in range(0, len(values), axes[1])]
        for several in zip(*rows, strict=False):
            yield from _joined(list(several))
    if truth.ndim == values[0].ndim + 1:  # a list in place of an array of one more axis
        yield np.stack(values) if len({value.shape for value in values}) == 1 else values[0]


def _by_axes(value: _Array, truth: _Array) -> Iterator[_Array]:
    """What an array means that has what devices have side by side."""
    import numpy as np

    if value.ndim != truth.ndim:
        return
    larger = [
        axis for axis, (ours, theirs) in enumerate(zip(value.shape, truth.shape, strict=True)) if ours > theirs > 0
    ]
    if not larger or value.shape[larger[0]] % truth.shape[larger[0]]:
        return
    count = value.shape[larger[0]] // truth.shape[larger[0]]
    for whole in _joined(np.split(value, count, axis=larger[0])):
        yield whole
        if len(larger) > 1:
            yield from _by_axes(whole, truth)


def _joined(values: list[_Array]) -> Iterator[_Array]:
    """The parts as copies, as summands, as what the largest or smallest is taken of, and side by side."""
    import numpy as np

    if len({value.shape for value in values}) == 1:
        if all(_near(value, values[0]) for value in values):
            yield values[0]
        yield np.sum(values, axis=0)
        if values[0].ndim:
            yield np.max(values, axis=0)
            yield np.min(values, axis=0)
    for axis in range(values[0].ndim):
        others = {(value.ndim, *value.shape[:axis], *value.shape[axis + 1 :]) for value in values}
        if len(others) == 1:
            yield np.concatenate(values, axis=axis)


def _factors(whole: _Array, truth: _Array, axes: tuple[int, int]) -> Iterator[float]:
    """By how much a whole is too large, if by a number of devices; of zeros only that they are right."""
    if whole.shape != truth.shape:
        return
    for times in (1, *sorted({*axes, axes[0] * axes[1]} - {1})):
        for factor in (float(times), 1.0 / times):
            if _near(whole, factor * truth):
                yield factor
                return


def _near(value: _Array, other: _Array) -> bool:
    import numpy as np

    with np.errstate(all="ignore"):
        scale = np.max(np.abs(other), initial=0.0)
        same = (value == other) | (np.isnan(value) & np.isnan(other))
        return bool(np.all(same | (np.abs(value - other) <= _NEAR * scale)))


def _wide(array: Array) -> _Array:
    import numpy as np

    found = array.numpy()
    return found if found.dtype.kind == "c" else found.astype(np.float64)
