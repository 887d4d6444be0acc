"""Sums that TensorFlow makes, forward and backward: by 4 eps of a random walk of as many and as large terms.

Distributing a step makes other sums than these, of the same terms. The noise in their terms is mostly the noise in
data; but where the terms of a sum belong together, they cancel after any change of the data too, to all but rounding.
The gradient of a bias before a batch normalization is such a sum: zero but for rounding, of which Adam makes a full
step. So the sum itself is perturbed as well. Its size is not known from the result, but from the terms: the root of the
sum of their squares. Where the result is so small that it may be all rounding, the terms have a rounding in common, of
a mean that was taken off each of them for example; then it is the sum of their sizes.

Means are perturbed in coarse dtypes only, which noise in data does not reach: a mean is no gradient of anything, and
its terms have noise already.

A result that is a whole number comes from counting: it is exact in any order, and stays. In 16 bits, where most large
numbers are whole, that is so where all the terms are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.noise.protocol import NoiseSource, eps_of, patched
from harness.recording.noise.signs import lasting

__all__ = ["ROUNDINGS", "active"]

ROUNDINGS = 4.0
"""Sums of n terms are made as trees, or in several lanes, so that each term is rounded a few times."""

# A sum of no more eps of its terms, all taken as positive, may be all rounding.
_ALL_ROUNDING = 16.0


@contextlib.contextmanager
def active(source: NoiseSource) -> Iterator[None]:
    """Perturb sums over elements in this context: `reduce_sum`, `reduce_mean`, and the gradients of biases.

    All code of TensorFlow calls these functions by way of their modules, eagerly, in a graph and for gradients.
    """
    from tensorflow.python.ops import gen_math_ops, gen_nn_ops

    with contextlib.ExitStack() as stack:
        for module, name in ((gen_math_ops, "_sum"), (gen_math_ops, "mean"), (gen_nn_ops, "bias_add_grad")):
            stack.enter_context(patched(module, name, _summing(source, mean=name == "mean")))
        yield


def _summing(source: NoiseSource, *, mean: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    import tensorflow as tf

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def summed(terms: Any = None, *args: Any, **options: Any) -> Any:
            if terms is None:  # given by name
                terms = options.pop("input" if "input" in options else "out_backprop")
            found = original(terms, *args, **options)
            if source.is_silent or not eps_of(found.dtype.name) or (mean and found.dtype.size >= 4):
                return found
            with source.silent():
                terms = tf.convert_to_tensor(terms, found.dtype)
                return _perturbed(source, found, terms, lambda squares: original(squares, *args, **options), mean=mean)

        return summed

    return around


def _perturbed(source: NoiseSource, found: Any, terms: Any, again: Callable[[Any], Any], *, mean: bool) -> Any:
    """A sum, or a mean, of terms, with noise; `again` sums other terms in the same way.

    There are hundreds of sums in a large model, so that as little as possible is left to ops, and none is added where
    nothing is summed.
    """
    import tensorflow as tf

    count = _count(terms, found)
    if isinstance(count, float) and count <= 1:
        return found
    # The square of a number of float16 may be none.
    wide = found.dtype if found.dtype.size >= 4 else tf.float32
    size = tf.sqrt(tf.cast(again(tf.square(tf.cast(terms, wide))), wide))
    if not isinstance(count, float):
        count = tf.cast(count, wide)
    if wide == found.dtype:
        coherent = size * count**0.5
        size = tf.where(tf.abs(found) <= _ALL_ROUNDING * eps_of(wide.name) * coherent, coherent, size)
        counted = tf.round(found) == found
    else:  # in 16 bits most large results are whole numbers
        counted = tf.reduce_all(tf.round(terms) == terms)
    size = size / count**0.5 if mean else size
    noise = lasting(source, ROUNDINGS * eps_of(found.dtype.name), found) * tf.cast(size, found.dtype)
    return found + tf.stop_gradient(tf.where(counted, tf.zeros([], found.dtype), noise))


def _count(terms: Any, found: Any) -> Any:
    """How many terms a sum has: a number, or a tensor where that is known only later."""
    import tensorflow as tf

    before, after = (None if each.shape is None else each.shape.num_elements() for each in (terms, found))
    if before is not None and after:
        return before / after
    return tf.size(terms) / tf.maximum(tf.size(found), 1)
