"""Where a value comes from that replicas are given: from outside of the step, or computed in it."""

from __future__ import annotations

from typing import Any

__all__ = ["comes_from_outside", "has_rows"]


def has_rows(value: Any) -> bool:
    """Whether it is a tensor or an array with examples along its first axis."""
    import numpy as np
    import tensorflow as tf

    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, tf.Tensor) and bool(value.shape.rank) and value.dtype not in (tf.resource, tf.variant)


def comes_from_outside(gathered: Any, value: Any) -> bool:
    """Whether an iterator, or the caller of the function that is being traced, has given it."""
    import numpy as np
    import tensorflow as tf

    if isinstance(value, np.ndarray):
        return value.ndim > 0
    if not isinstance(value, tf.Tensor) or value.dtype in (tf.resource, tf.variant):
        return False
    if not tf.is_symbolic_tensor(value):
        return not gathered.was_computed(value) and tf.executing_eagerly()
    given = False
    left, known = [value.op], {value.op.name}
    while left:
        operation = left.pop()
        if "GetNext" in operation.type or "Optional" in operation.type:
            given = True
            continue
        if operation.type == "Placeholder":
            if operation.outputs[0].dtype == tf.resource:
                return False  # a variable
            given = given or operation.outputs[0].dtype != tf.variant
            continue
        if operation.type == "VarHandleOp":
            return False
        new = [each.op for each in operation.inputs if each.op.name not in known]
        known.update(each.name for each in new)
        left.extend(new)
    return given and not gathered.called_with_computed
