"""Single numbers among the arguments of a call, such as a weight that the program makes of the number of the step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Numbers = tuple[tuple[int, float | int | bool], ...]
"""Each with its place among the leaves of the arguments."""


def numbers_of(arguments: Sequence[Any]) -> Numbers:
    """Those that Python could have made: tensors of rank 0, NumPy's numbers and Python's."""
    return tuple((place, each.item() if _is_array(each) else each) for place, each in _known(arguments))


def with_numbers(arguments: Sequence[Any], numbers: Numbers) -> list[Any]:
    """The arguments with other numbers, each of the type that it has here."""
    found, known = list(arguments), dict(_known(arguments))
    for place, number in numbers:
        if place in known:
            found[place] = _like(arguments[place], number)
    return found


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


def _like(value: Any, number: float) -> Any:
    import tensorflow as tf

    if isinstance(value, tf.Tensor):
        with tf.device(value.device):
            return tf.constant(number, value.dtype)
    return type(value)(number)
