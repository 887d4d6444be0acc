"""What each call of a function gets besides examples: it has to be the same on one device, each time."""

from __future__ import annotations

import zlib
from typing import Any

from harness.recording.layouts import numbers_of
from harness.recording.tracing.arguments import Handles, Yielded


class PlainArguments:
    """Tells what calls get that is no example's, and whether other objects than the first time."""

    def __init__(self, yielded: Yielded, handles: Handles) -> None:
        self._yielded, self._handles = yielded, handles
        self._literals: list[str] | None = None
        # By identity, and kept, so that no other object gets the same.
        self._objects: list[Any] | None = None

    def noted(self, given: Any) -> list[str]:
        """In sentences, those of one call."""
        import tensorflow as tf

        changes, literals, objects = [], [], []
        for at, value in enumerate(tf.nest.flatten(given)):
            if isinstance(value, (bool, int, float, str, bytes)) or value is None:
                literals.append(f"a call gets {value!r} as its argument {at}")
            elif (name := self._variable(value)) is not None:
                literals.append(f"a call gets variable {name} as its argument {at}")
            elif (held := self._held(value)) is not None:
                changes.append(f"a call gets a tensor ({held}) as its argument {at}")
            elif not self._is_examples(value):
                objects.append(value)
        changes += literals
        if self._literals not in (None, literals):
            changes.append("the function is traced again for another Python value, which is not looked at")
        if self._objects is not None and not _same_objects(self._objects, objects):
            changes.append("the function is called with another object than the first time, which is not looked at")
        self._literals, self._objects = literals, objects if self._objects is None else self._objects
        return changes

    def _variable(self, value: Any) -> str | None:
        import tensorflow as tf

        if isinstance(value, (tf.Variable, tf.distribute.DistributedValues)):
            held = value._values[0] if hasattr(value, "_values") else value  # noqa: SLF001 - the first copy
            found = self._handles.argument(getattr(held, "handle", None)) if hasattr(held, "handle") else None
            return None if found is None else found.name
        return None

    def _held(self, value: Any) -> int | None:
        """A number that follows from what an array or a tensor holds; of NumPy as of TensorFlow."""
        import numpy as np
        import tensorflow as tf

        if self._is_examples(value) or not (isinstance(value, tf.Tensor) or hasattr(value, "__array__")):
            return None
        if isinstance(value, tf.Tensor) and value.dtype.name in ("resource", "variant"):
            return None
        array = numbers_of(value) if isinstance(value, tf.Tensor) else np.asarray(value)
        held = array.tobytes() if array.dtype.kind != "O" else repr(array.tolist()).encode()
        return zlib.crc32(held, zlib.crc32(repr((array.shape, str(array.dtype))).encode()))

    def _is_examples(self, value: Any) -> bool:
        """Whether it is what an iterator gave, or an iterator, of which there is a new one in every epoch."""
        import tensorflow as tf
        from tensorflow.python.data.ops import iterator_ops
        from tensorflow.python.distribute import input_lib

        if isinstance(value, (input_lib.DistributedIterator, iterator_ops.OwnedIterator)):
            return True
        if isinstance(value, tf.distribute.DistributedValues):
            return all(each in self._yielded for each in value._values)  # noqa: SLF001 - those of this process
        # A number has no rows: a rate, say, of which there is another one at each step.
        return value in self._yielded and bool(value.shape.rank)


def _same_objects(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))
