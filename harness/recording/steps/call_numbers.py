"""Numbers among the arguments of a call: a weight made of the step's number, or momentum that Python carries on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness.recording.layouts import is_laid_out

if TYPE_CHECKING:
    import numpy as np

Numbers = tuple[tuple[int, float | int | bool], ...]
"""Each with its place among the leaves of the arguments."""


def numbers_of(arguments: Sequence[Any]) -> Numbers:
    """Those that Python could have made: tensors of rank 0, NumPy's numbers and Python's."""
    return tuple((place, each.item() if _is_array(each) else each) for place, each in _known(arguments))


def arrays_of(arguments: Sequence[Any]) -> dict[int, np.ndarray[Any, Any]]:
    """By their places the tensors and arrays of numbers that have axes.

    What each replica has of its own is none, nor what is laid out on a mesh.
    """
    import numpy as np
    import tensorflow as tf

    found = {}
    for place, each in enumerate(arguments):
        if isinstance(each, tf.Tensor) and not tf.is_symbolic_tensor(each) and not is_laid_out(each):
            if each.shape.rank and (each.dtype.is_floating or each.dtype.is_integer or each.dtype.is_bool):
                found[place] = each.numpy()
        elif isinstance(each, np.ndarray) and each.ndim and each.dtype.kind in "fiub":
            found[place] = each
    return found


def with_numbers(
    arguments: Sequence[Any], numbers: Numbers, arrays: Mapping[int, np.ndarray[Any, Any]]
) -> tuple[list[Any], set[int]]:
    """The arguments with other numbers, each of the type that it has here, and the places of these."""
    found, known, own = list(arguments), dict(_known(arguments)), arrays_of(arguments)
    given = {place: number for place, number in numbers if place in known}
    for place, number in given.items():
        found[place] = _like(arguments[place], number)
    for place, array in arrays.items():
        if place in own and own[place].dtype == array.dtype and own[place].ndim == array.ndim:
            found[place] = _as(arguments[place], array)
            given[place] = 0
    return found, {*given}


def _known(arguments: Sequence[Any]) -> list[tuple[int, Any]]:
    """What has a number, as an array without axes or as Python has it."""
    import numpy as np
    import tensorflow as tf

    found: list[tuple[int, Any]] = []
    for place, each in enumerate(arguments):
        if isinstance(each, tf.Tensor) and not tf.is_symbolic_tensor(each) and each.shape.rank == 0:
            if each.dtype.is_floating or each.dtype.is_integer or each.dtype.is_bool:
                found.append((place, each.numpy()))
        elif isinstance(each, (int, float)) or (isinstance(each, np.generic) and each.dtype.kind in "fiub"):
            found.append((place, each))
    return found


def _is_array(value: Any) -> bool:
    import numpy as np

    return isinstance(value, (np.generic, np.ndarray))


def _as(value: Any, array: np.ndarray[Any, Any]) -> Any:
    import numpy as np
    import tensorflow as tf

    if not isinstance(value, tf.Tensor):
        return np.array(array)
    with tf.device(value.device):
        return tf.constant(array)


def _like(value: Any, number: float) -> Any:
    import tensorflow as tf

    if isinstance(value, tf.Tensor):
        with tf.device(value.device):
            return tf.constant(number, value.dtype)
    return type(value)(number)
