"""Where a value comes from that replicas are given: from outside of the step, or computed in it."""

from __future__ import annotations

import contextlib
import weakref
from typing import Any


class ComputedValues:
    """What outermost calls have given back: values that are not from outside where the next one is given them.

    Attributes:
        is_given: whether the call that is being made is given any.
    """

    def __init__(self) -> None:
        self.is_given = False
        self._known: dict[int, weakref.ref[Any]] = {}
        self._evaluated: dict[int, weakref.ref[Any]] = {}

    def give(self, arguments: Any) -> None:
        """A call is made with these."""
        import tensorflow as tf

        self.is_given = any(map(self.has, tf.nest.flatten(arguments)))

    def take(self, result: Any) -> None:
        """A call has given this back."""
        self._known = {**_there(self._known), **_referred(result)}

    def take_evaluated(self, result: Any) -> None:
        """An evaluation has given this back."""
        self._evaluated = {**_there(self._evaluated), **_referred(result)}

    def has(self, value: Any) -> bool:
        """Whether a call has given back this very value."""
        return _is_in(self._known, value)

    def is_evaluated(self, value: Any) -> bool:
        """Whether all that a structure holds is what evaluations have given back."""
        import tensorflow as tf

        return all(_is_in(self._evaluated, each) for each in tf.nest.flatten(value))


def _there(known: dict[int, weakref.ref[Any]]) -> dict[int, weakref.ref[Any]]:
    return {key: ref for key, ref in known.items() if ref() is not None}


def _referred(result: Any) -> dict[int, weakref.ref[Any]]:
    import tensorflow as tf

    found = {}
    for each in tf.nest.flatten(result):
        with contextlib.suppress(TypeError):  # what cannot be referred to is no tensor
            found[id(each)] = weakref.ref(each)
    return found


def _is_in(known: dict[int, weakref.ref[Any]], value: Any) -> bool:
    ref = known.get(id(value))
    return ref is not None and ref() is value


def has_rows(value: Any) -> bool:
    """Whether it is a tensor or an array with examples along its first axis."""
    import numpy as np
    import tensorflow as tf

    if isinstance(value, np.ndarray):
        return value.ndim > 0
    if isinstance(value, (tf.RaggedTensor, tf.SparseTensor)):
        return True
    return isinstance(value, tf.Tensor) and bool(value.shape.rank) and value.dtype not in (tf.resource, tf.variant)


def comes_from_outside(computed: ComputedValues, value: Any) -> bool:
    """Whether an iterator, or the caller of the function that is being traced, has given it."""
    import numpy as np
    import tensorflow as tf

    if isinstance(value, np.ndarray):
        return value.ndim > 0
    if isinstance(value, (tf.RaggedTensor, tf.SparseTensor)):
        dense = tf.nest.flatten(value, expand_composites=True)
        return all(comes_from_outside(computed, each) for each in dense)
    if not isinstance(value, tf.Tensor) or value.dtype in (tf.resource, tf.variant):
        return False
    if not tf.is_symbolic_tensor(value):
        return not computed.has(value) and tf.executing_eagerly()
    given = False
    left, known = [value.op], {value.op.name}
    while left:
        operation = left.pop()
        if "GetNext" in operation.type or "Optional" in operation.type:
            given = True
            continue
        if operation.type.startswith("Collective"):
            continue  # by which workers agree whether there is more data
        if operation.type == "Placeholder":
            if _is_variable(operation.outputs[0]):
                return False
            given = given or operation.outputs[0].dtype != tf.variant
            continue
        if operation.type == "VarHandleOp":
            return False
        decides = operation.type in ("If", "StatelessIf")
        new = [each.op for each in operation.inputs[decides:] if each.op.name not in known]
        known.update(each.name for each in new)
        left.extend(new)
    return given and not computed.is_given


def _is_variable(value: Any) -> bool:
    """Whether what a graph captures is a variable; an iterator is a resource too, of which no dtype is known."""
    import tensorflow as tf
    from tensorflow.python.ops import handle_data_util

    return value.dtype == tf.resource and bool(handle_data_util.get_resource_handle_data(value).is_set)
