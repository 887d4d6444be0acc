"""The variables of a program as state: what their copies are, and how they are set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.evidence.steps.records import How

if TYPE_CHECKING:
    import numpy as np

__all__ = ["copies_of", "how_copies_are", "set_to"]


def copies_of(variable: Any) -> tuple[Any, ...]:
    """The variable of each local device that it is made of."""
    import tensorflow as tf

    return tuple(variable.values) if isinstance(variable, tf.distribute.DistributedValues) else (variable,)


def how_copies_are(variable: Any, copies: Sequence[np.ndarray[Any, Any]]) -> How:
    """What the copies of a variable are of the whole."""
    import tensorflow as tf

    if getattr(variable, "synchronization", None) == tf.VariableSynchronization.ON_READ:
        aggregation = getattr(variable, "aggregation", None)
        if aggregation == tf.VariableAggregation.SUM:
            return "sum"
        if aggregation == tf.VariableAggregation.MEAN:
            return "mean"
    first = copies[0].tobytes()
    return "copies" if all(copy.tobytes() == first for copy in copies[1:]) else "own"


def set_to(variable: Any, value: np.ndarray[Any, Any]) -> None:
    """Give all copies of a variable this value, also where its strategy would not let the program do so."""
    import numpy as np
    import tensorflow as tf

    # A copy, since TensorFlow may take over the memory of an array and update it in place.
    tensor = tf.constant(np.array(value), dtype=variable.dtype.base_dtype)
    for copy in copies_of(variable):
        tf.raw_ops.AssignVariableOp(resource=copy.handle, value=tensor)
