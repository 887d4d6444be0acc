"""Sums that TensorFlow makes, forward and backward: by 4 eps of a random walk of as many and as large terms.

Distributing a step makes other sums than these, of the same terms. The noise in their terms is mostly the noise in
data; but where the terms of a sum belong together, they cancel after any change of the data too, to all but rounding.
The gradient of a bias before a batch normalization is such a sum: zero but for rounding, of which Adam makes a full
step. So the sum itself is perturbed as well. Its size is not known from the result, but from the terms: the root of the
sum of their squares.

A result that is a whole number, or a mean of whole numbers, comes from counting: it is exact in any order, and stays.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.noise.protocol import Source, eps_of, patched
from harness.recording.noise.signs import signed, size_key

__all__ = ["ROUNDINGS", "active"]

ROUNDINGS = 4.0
"""Sums of n terms are made as trees, or in several lanes, so that each term is rounded a few times."""


@contextlib.contextmanager
def active(source: Source) -> Iterator[None]:
    """Perturb sums over elements in this context: `reduce_sum`, `reduce_mean`, and the gradients of biases.

    All code of TensorFlow calls these functions by way of their modules, eagerly, in a graph and for gradients.
    """
    from tensorflow.python.ops import gen_math_ops, gen_nn_ops

    with contextlib.ExitStack() as stack:
        for module, name in ((gen_math_ops, "_sum"), (gen_math_ops, "mean"), (gen_nn_ops, "bias_add_grad")):
            stack.enter_context(patched(module, name, _summing(source, mean=name == "mean")))
        yield


def _summing(source: Source, *, mean: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def summed(terms: Any = None, *args: Any, **options: Any) -> Any:
            if terms is None:  # given by name
                terms = options.pop("input" if "input" in options else "out_backprop")
            found = original(terms, *args, **options)
            if source.is_silent or not eps_of(found.dtype.name):
                return found
            with source.silent():
                noise = _noise(source, found, terms, lambda squares: original(squares, *args, **options), mean=mean)
                return found + noise

        return summed

    return around


def _noise(source: Source, found: Any, terms: Any, again: Callable[[Any], Any], *, mean: bool) -> Any:
    """What to add to a sum, or to a mean, of terms; `again` sums other terms in the same way."""
    import tensorflow as tf

    terms, found = tf.stop_gradient(tf.convert_to_tensor(terms, found.dtype)), tf.stop_gradient(found)
    # The square of a number of float16 may be none.
    wide = found.dtype if found.dtype.size >= 4 else tf.float32
    squares = tf.cast(again(tf.square(tf.cast(terms, wide))), wide)
    count = tf.cast(tf.size(terms), wide) / tf.cast(tf.maximum(tf.size(found), 1), wide)
    size = tf.sqrt(squares / count if mean else squares)
    whole = tf.cast(found, wide) * count if mean else tf.cast(found, wide)
    counted = tf.cast(tf.round(whole) / count if mean else tf.round(whole), found.dtype) == found
    noise = signed(source, ROUNDINGS * eps_of(found.dtype.name), found, size_key(size)) * tf.cast(size, found.dtype)
    return tf.where(counted | (count <= 1), tf.zeros_like(found), noise)
