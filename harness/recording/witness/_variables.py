"""Reads variables after a step: the first copy whole, the others only as far as they differ from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from harness.evidence.trace import STATISTICS, Array, SeenVariable
from harness.recording.layouts import is_laid_out
from harness.recording.reader import Reader
from harness.recording.steps.state import held_now, how_copies_are
from harness.recording.witness._registry import RegisteredName, VariableEntry
from harness.recording.witness.protocol import WitnessState

if TYPE_CHECKING:
    import numpy as np


BYTES_MAX = 16 << 20
"""Of the first copies of all variables that are kept of each step. Of more, those after steps 1, 2, 4, 8 and so on."""

ELEMENTS_MAX = 1 << 16
"""Of a variable with more elements as many at most are kept, evenly apart. Whether copies agree is asked of all."""

_SMALL = 1 << 16
"""Bytes that are copied faster than NumPy compares them."""


def read(
    gathered: WitnessState, variables: Sequence[tuple[VariableEntry, Any]], number: int, *, last: bool = False
) -> tuple[SeenVariable, ...] | None:
    """All of these as they are now; None after a step, by its number, at which they are too much, but the last."""
    large = is_large(variable for _, variable in variables)
    if large and gathered.at_once:
        gathered.note(f"variables of more than {BYTES_MAX >> 20} MiB in a run that is to be killed")
        return None
    if large and number & (number - 1) and not last:
        gathered.note(f"variables of more than {BYTES_MAX >> 20} MiB after each step; only after steps 1, 2, 4, 8, ...")
        return None
    found = []
    for entry, variable, held in held_now(variables, gathered.reader):
        kind = STATISTICS if entry.is_statistics else "mirrored" if _spread(variable) else "plain"
        found.append(SeenVariable(entry.name, kind, *kept(held)))
    return tuple(found) or None


def is_large(variables: Iterable[Any]) -> bool:
    """Whether the first copies of these are too much to be kept of each step."""
    return sum(map(_bytes, variables)) > BYTES_MAX


def first_values(variables: Sequence[tuple[RegisteredName, Any]], reader: Reader) -> tuple[SeenVariable, ...]:
    """All of these of which each copy has a value."""
    found = held_now(variables, reader)
    return tuple(SeenVariable(named.name, how_copies_are(each, held), *kept(held)) for named, each, held in found)


def own_copies(variables: Sequence[tuple[RegisteredName, Any]], reader: Reader) -> tuple[SeenVariable, ...]:
    """What each local replica has of these by itself: of large ones as many elements as of others."""
    found = held_now(variables, reader)
    return tuple(
        SeenVariable(named.name, how_copies_are(each, held), tuple(Array.of(_sample(copy)) for copy in held))
        for named, each, held in found
    )


def _spread(variable: Any) -> bool:
    import tensorflow as tf

    return isinstance(variable, tf.distribute.DistributedValues) or is_laid_out(variable)


def _bytes(variable: Any) -> int:
    return int(variable.shape.num_elements() or 0) * int(variable.dtype.size)


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


def _same(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    import numpy as np

    if one.nbytes <= _SMALL:
        return one.tobytes() == other.tobytes()
    return one.nbytes == other.nbytes and np.array_equal(_bits(one), _bits(other))


def _bits(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    import numpy as np

    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
