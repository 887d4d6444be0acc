"""Digests, computed on the device that has what is digested.

Of the copies of variables any bit that turns over changes one: the bits of each variable are added up as whole numbers,
which wrap around, and the sums times odd numbers. Of examples only some elements are looked at, evenly spread: the same
ones in the same order have the same digest, and others another one.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from harness.evidence.saved_states import BITS, called
from harness.evidence.trace import is_statistics
from harness.recording.steps.protocol import Variables
from harness.recording.steps.state import copies_of

_SMALL = 1 << 16
"""Of variables with so many elements at most all are added up together, which takes fewer operations."""
_LOOKED_AT = 1 << 15
"""Of a tensor of examples about so many elements are."""
_MIXING = (-7046029288634856825, -4658895280553007687)
"""Odd numbers with bits all over, by which splitmix64 and its kin mix those of a word."""


class DigestOperations:
    """Keeps the function that digests the variables which were asked for last.

    Attributes:
        kind: as of `harness.evidence.digests.Digest`.
    """

    def __init__(self) -> None:
        self.kind = 0
        self._known: Sequence[weakref.ref[Any]] = ()
        self._names: Sequence[tuple[str, int]] = ()
        self._digest: Callable[[], Sequence[Any]] | None = None

    def know(self, variables: Variables) -> None:
        """Digest these from now on, as far as their copies have to agree."""
        same = len(variables) == len(self._known)
        if same and all(variable is known() for (_, variable), known in zip(variables, self._known, strict=True)):
            return
        self.kind += 1
        self._known = [weakref.ref(variable) for _, variable in variables]  # a program may let go of them
        agreeing = [copies_of(variable) for named, variable in variables if _agrees(named.name, variable)]
        self._digest = _digesting(list(zip(*agreeing, strict=True))) if agreeing else None
        self._names = [(named.name, named.number) for named, _ in variables]

    def now(self) -> Sequence[Any]:
        """A tensor for each local replica, which may be computed later; none if a variable has no value yet."""
        if self._digest is None:
            return []
        import tensorflow as tf

        try:
            return self._digest()
        except (tf.errors.FailedPreconditionError, tf.errors.NotFoundError):
            return []

    def sums(self) -> dict[str, int]:
        """By variable that has a value, as of `called`, the bits of its first copy; see `saved_states`."""
        import tensorflow as tf

        found = {}
        for (name, number), known in zip(self._names, self._known, strict=True):
            variable = known()
            if variable is not None and _is_saved(variable):
                with contextlib.suppress(tf.errors.FailedPreconditionError, tf.errors.NotFoundError):
                    found[called(name, number)] = _sum(copies_of(variable)[0].read_value())
        return {name: int(each) for name, each in found.items()}


def _agrees(name: str, variable: Any) -> bool:
    """Whether copies have to: not those of statistics, which Keras 3 has of each replica's own batches."""
    return _is_saved(variable) and not is_statistics(name)


def _is_saved(variable: Any) -> bool:
    """Whether a checkpoint has its first copy, and a number can be made of that."""
    import tensorflow as tf

    spread = isinstance(variable, tf.distribute.DistributedValues)
    sized = variable.dtype.base_dtype.size in BITS
    return spread and sized and variable.synchronization != tf.VariableSynchronization.ON_READ


def _digesting(devices: Sequence[Sequence[Any]]) -> Callable[[], Sequence[Any]]:
    """A function that digests variables of each of these devices."""
    import tensorflow as tf

    known = [[(copy.handle, copy.dtype.base_dtype, copy.shape) for copy in copies] for copies in devices]

    def digest() -> list[Any]:
        found = []
        for copies, own in zip(devices, known, strict=True):
            with tf.device(copies[0].device):
                small: dict[Any, list[Any]] = {}
                sums = []
                for handle, kind, shape in own:
                    value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=kind)
                    if shape.num_elements() > _SMALL:
                        sums.append(_sum(value))
                    else:
                        small.setdefault(kind, []).append(tf.reshape(value, [-1]))
                sums += [_sum(tf.concat(values, 0)) for values in small.values()]
                odd = tf.range(1, 2 * len(sums), 2, dtype=tf.int64)
                found.append(tf.reduce_sum(odd * tf.stack([tf.cast(each, tf.int64) for each in sums])))
        return found

    # Called as a concrete function, it is none of those that the witness looks at.
    traced: Callable[[], Sequence[Any]] = tf.function(digest, autograph=False).get_concrete_function()
    return traced


def _sum(value: Any) -> Any:
    import tensorflow as tf

    if value.dtype == tf.bool:
        return tf.reduce_sum(tf.cast(value, tf.int32))
    bits = BITS[value.dtype.size]
    whole = value if value.dtype.name == bits else tf.bitcast(value, bits)
    return tf.reduce_sum(tf.cast(whole, tf.int32) if value.dtype.size < 4 else whole)


def digest_of_examples(tensors: Sequence[Any]) -> Any:
    """That of what a replica is given, an int64: tensors with a row for each example, of any dtype.

    Each word is mixed before they are added up, since sums of small numbers, such as labels, are soon alike.
    """
    import tensorflow as tf

    sums = []
    for number, tensor in enumerate(map(tf.convert_to_tensor, tensors)):
        words = tf.reshape(tensor, [-1])
        words = _words(words[:: tf.size(words) // _LOOKED_AT + 1])
        for odd in _MIXING:
            words = odd * tf.bitwise.bitwise_xor(words, tf.bitwise.right_shift(words, tf.constant(29, tf.int64)))
        sums.append((2 * number + 1) * tf.reduce_sum(words))
    return tf.add_n(sums)


def _words(values: Any) -> Any:
    """Each as a number of 64 bits."""
    import tensorflow as tf

    if values.dtype == tf.string:
        return tf.strings.to_hash_bucket_fast(values, 2**62)
    if values.dtype == tf.bool:
        return tf.cast(values, tf.int64)
    if values.dtype.size not in BITS:  # a complex number is two
        values = tf.math.real(values)
    return tf.cast(tf.bitcast(values, BITS[values.dtype.size]), tf.int64)
