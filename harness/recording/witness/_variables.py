"""Reads variables after a step: the first copy whole, the others only as far as they differ from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.evidence.trace import Array, SeenVariable
from harness.recording.witness._registry import Entry
from harness.recording.witness.protocol import Gathered

if TYPE_CHECKING:
    import numpy as np

__all__ = ["BYTES_MAX", "ELEMENTS_MAX", "kept", "read"]

BYTES_MAX = 16 << 20
"""Of the first copies of all variables that are kept of each step. Of more, those after steps 1, 2, 4, 8 and so on."""

ELEMENTS_MAX = 1 << 16
"""Of a variable with more elements as many at most are kept, evenly apart. Whether copies agree is asked of all."""


def read(
    gathered: Gathered, variables: Sequence[tuple[Entry, Any]], *, last: bool = False
) -> tuple[SeenVariable, ...] | None:
    """All of these as they are now; None at a step at which they are too much, other than the last."""
    number = gathered.number
    large = sum(_bytes(variable) for _, variable in variables) > BYTES_MAX
    if large and number & (number - 1) and not last:
        gathered.note(f"variables of more than {BYTES_MAX >> 20} MiB after each step; only after steps 1, 2, 4, 8, ...")
        return None
    found = [_read(entry, variable) for entry, variable in variables]
    return tuple(each for each in found if each is not None) or None


def _bytes(variable: Any) -> int:
    return int(variable.shape.num_elements() or 0) * int(variable.dtype.size)


def _read(entry: Entry, variable: Any) -> SeenVariable | None:
    import tensorflow as tf

    spread = isinstance(variable, tf.distribute.DistributedValues)
    copies = [_value(copy) for copy in (variable.values if spread else (variable,))]
    known = [copy for copy in copies if copy is not None]
    if len(known) < len(copies):  # one has no value yet
        return None
    copies_kept, equal = kept(known)
    return SeenVariable(entry.name, "mirrored" if spread else "plain", copies_kept, equal)


def kept(copies: Sequence[np.ndarray[Any, Any]]) -> tuple[tuple[Array, ...], int]:
    """What is kept of the copies of a variable: the first one, those that differ from it, and how many do not."""
    first, *others = copies
    differing = [other for other in others if not _same(first, other)]
    samples = [_sample(copy) for copy in (first, *differing)]
    if first.size > ELEMENTS_MAX and differing:
        # Where copies differ, what is kept of them does.
        where = int((_bits(first) != _bits(differing[0])).argmax()) // first.itemsize
        for sample, copy in zip(samples, (first, *differing), strict=True):
            sample[-1] = copy.reshape(-1)[where]
    return tuple(map(Array.of, samples)), len(others) - len(differing)


def _sample(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array, or of a large one a row of elements evenly apart."""
    if array.size <= ELEMENTS_MAX:
        return array
    return array.reshape(-1)[:: -(-array.size // ELEMENTS_MAX)].copy()


def _value(variable: Any) -> np.ndarray[Any, Any] | None:
    import numpy as np
    import tensorflow as tf

    try:
        # Not variable.numpy(), which takes five times as long for a small one.
        tensor = tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype)
    except (tf.errors.FailedPreconditionError, tf.errors.NotFoundError):
        return None
    return np.asarray(tensor)


def _same(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    import numpy as np

    return one.nbytes == other.nbytes and np.array_equal(_bits(one), _bits(other))


def _bits(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    import numpy as np

    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
