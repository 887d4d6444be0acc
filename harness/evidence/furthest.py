"""Several reruns as one trace: of each element the number that is furthest from the reference's.

A bound asks of the reruns only how far they are from the reference, the furthest of them for each element. So the trace
of a rerun can take in those of others, and a reference is as large with five reruns as with one. The number is kept and
not the distance: what is read from such a trace has the bits of a rerun, and its distance is that of the rerun.

To take in the same trace twice changes nothing, so that whoever was killed while doing it may begin again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from harness.evidence.arrays import Array, arrays_in
from harness.evidence.mapped import looked_at
from harness.evidence.trace import Counters, Frame, Header, Seen, SeenVariable, Step, Value, Variable, frames

if TYPE_CHECKING:
    import numpy as np

__all__ = ["distance", "take_in"]

_ELEMENTS_AT_ONCE = 1 << 20


def distance(found: np.ndarray[Any, Any], truth: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """How far each element is from the reference's; 0 where that cannot be told: an overflow is no distance."""
    import numpy as np

    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(_wide(found) - _wide(truth))
    return np.where(np.isfinite(apart), apart, 0.0)


def _wide(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    import numpy as np

    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def take_in(plain: Path, into: Path, rerun: Path) -> bool:
    """Keep in the trace of one rerun, in its place, what is furthest from the plain run in it or in another one.

    Args:
        plain: the trace of the run without noise.
        into: that of a rerun, which is changed.
        rerun: that of another one.

    Returns:
        Whether that could be done. If the three have not recorded alike, nothing is changed.
    """
    for trio in _together(plain, into, rerun):
        first, *others = map(_shape, trio)
        if first is None or any(other != first for other in others) or _unlike(*trio[1:]):
            return False
    for trio in _together(plain, into, rerun, changed=True):
        for truth, kept, other in zip(*map(arrays_in, trio), strict=True):
            if kept.is_floating:
                _keep_furthest(truth.numpy().reshape(-1), kept.numpy().reshape(-1), other.numpy().reshape(-1))
    return True


def _together(
    plain: Path, into: Path, rerun: Path, *, changed: bool = False
) -> Iterator[tuple[Frame | None, Frame | None, Frame | None]]:
    return zip_longest(frames(plain), frames(into, changed=changed), frames(rerun))


def _keep_furthest(truth: np.ndarray[Any, Any], kept: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> None:
    import numpy as np

    for start in range(0, truth.size, _ELEMENTS_AT_ONCE):
        part = slice(start, start + _ELEMENTS_AT_ONCE)
        further = distance(other[part], truth[part]) > distance(kept[part], truth[part])
        np.copyto(kept[part], other[part], where=further)
        looked_at(kept[part].nbytes)


def _shape(frame: Frame | None) -> object:
    """What must be the same of frames whose elements are to be compared; examples are not, which noise makes others.

    None where no frame is, and where a value has parts: how far a sum is tells nothing of how far these are.
    """
    if frame is None or any(len(parts) > 1 for parts in _parts(frame)):
        return None
    if isinstance(frame, Header):
        return msgspec.structs.replace(frame, versions={}, onednn=None)
    if isinstance(frame, Counters):
        return Counters(per_epoch=frame.per_epoch)
    frame = msgspec.structs.replace(frame, at=0.0)
    if isinstance(frame, (Step, Seen)):
        frame = msgspec.structs.replace(frame, examples=None)
    return _bare(frame)


def _parts(frame: Frame) -> Iterator[Sequence[Array]]:
    for name in frame.__struct_fields__:
        found = getattr(frame, name)
        for each in found if isinstance(found, tuple) else (found,):
            if isinstance(each, Value):
                yield each.parts
            elif isinstance(each, (Variable, SeenVariable)):
                yield each.copies


def _unlike(into: Frame | None, rerun: Frame | None) -> bool:
    """Whether two reruns differ in what a trace says of itself, which cannot be both."""
    if isinstance(into, Header) and isinstance(rerun, Header):
        return into.onednn != rerun.onednn
    if isinstance(into, Counters) and isinstance(rerun, Counters):
        return (into.coarsest, into.unseen) != (rerun.coarsest, rerun.unseen)
    return False


def _bare(thing: Any) -> Any:
    """The same with shapes in place of arrays."""
    if isinstance(thing, Array):
        return thing.dtype, thing.shape, thing.rows
    if isinstance(thing, msgspec.Struct):
        return type(thing), tuple(_bare(getattr(thing, name)) for name in thing.__struct_fields__)
    return tuple(map(_bare, thing)) if isinstance(thing, tuple) else thing
