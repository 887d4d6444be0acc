"""Digests of the copies of variables, computed on the device that has them: any bit that turns over changes one.

The bits of each variable are added up as whole numbers, which wrap around, and the sums times odd numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from harness.recording.steps.protocol import Variables
from harness.recording.steps.state import copies_of

__all__ = ["Digests"]

_BITS = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}


class Digests:
    """Keeps the functions that digest the variables which were asked for last.

    Attributes:
        kind: as of `harness.evidence.digests.Digest`.
    """

    def __init__(self) -> None:
        self.kind = 0
        self._known: list[Any] = []
        self._functions: list[Callable[[], Any]] = []

    def know(self, variables: Variables) -> None:
        """Digest these from now on, as far as their copies have to agree."""
        agreeing = [variable for _, variable in variables if _agrees(variable)]
        if len(agreeing) == len(self._known) and all(
            one is other for one, other in zip(agreeing, self._known, strict=True)
        ):
            return
        self.kind += 1
        self._known = agreeing
        self._functions = [_digesting(copies) for copies in zip(*map(copies_of, agreeing), strict=True)]

    def now(self) -> list[Any]:
        """A tensor for each local replica, which may be computed later; none if a variable has no value yet."""
        if not self._functions:
            return []
        import tensorflow as tf

        try:
            return [function() for function in self._functions]
        except (tf.errors.FailedPreconditionError, tf.errors.NotFoundError):
            return []


def _agrees(variable: Any) -> bool:
    import tensorflow as tf

    spread = isinstance(variable, tf.distribute.DistributedValues)
    sized = variable.dtype.base_dtype.size in _BITS
    return spread and sized and variable.synchronization != tf.VariableSynchronization.ON_READ


def _digesting(copies: Sequence[Any]) -> Callable[[], Any]:
    """A function that digests variables of one device."""
    import tensorflow as tf

    handles = [(copy.handle, copy.dtype.base_dtype) for copy in copies]

    def digest() -> Any:
        with tf.device(copies[0].device):
            parts = [
                (2 * number + 1) * tf.cast(_sum(tf.raw_ops.ReadVariableOp(resource=handle, dtype=kind)), tf.int64)
                for number, (handle, kind) in enumerate(handles)
            ]
            return tf.add_n(parts)

    # Called as a concrete function, it is none of those that the witness looks at.
    found: Callable[[], Any] = tf.function(digest, autograph=False).get_concrete_function()
    return found


def _sum(value: Any) -> Any:
    import tensorflow as tf

    if value.dtype == tf.bool:
        return tf.reduce_sum(tf.cast(value, tf.int32))
    bits = _BITS[value.dtype.size]
    whole = value if value.dtype.name == bits else tf.bitcast(value, bits)
    return tf.reduce_sum(tf.cast(whole, tf.int32) if value.dtype.size < 4 else whole)
