"""Sums that TensorFlow makes, forward and backward: by 4 eps of a random walk of as many and as large terms.

Distributing a step makes other sums than these, of the same terms. The noise in their terms is mostly the noise in
data; but where the terms of a sum belong together, they cancel after any change of the data too, to all but rounding.
The gradient of a bias before a batch normalization is such a sum: zero but for rounding, of which Adam makes a full
step. So the sum itself is perturbed as well. Its size is not known from the result, but from the terms: the root of the
sum of their squares. Where the result is so small that it may be all rounding, the terms have a rounding in common, of
a mean that was taken off each of them for example; then it is the sum of their sizes.

Means are perturbed in coarse dtypes only, which noise in data does not reach: a mean is no gradient of anything, and
its terms have noise already.

The gradient of a matrix with one column, or one row, is such a sum for each element: it has no neighbours, which tell
of other matrices how large terms are (see `gradients`). A reward that is centred in its group leaves nothing of what
all of the group have in common.

A result that is a whole number comes from counting: it is exact in any order, and stays. In 16 bits, where most large
numbers are whole, that is so where all the terms are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from harness.recording.noise.protocol import NoiseSource, eps_of, patched
from harness.recording.noise.signs import lasting

ROUNDINGS = 4.0
"""Sums of n terms are made as trees, or in several lanes, so that each term is rounded a few times."""

# A sum of no more eps of its terms, all taken as positive, may be all rounding.
_ALL_ROUNDING = 16.0


@contextlib.contextmanager
def active(source: NoiseSource) -> Iterator[None]:
    """Perturb sums over elements in this context: `reduce_sum`, `reduce_mean`, and gradients of biases and of vectors.

    All code of TensorFlow calls these functions by way of their modules, eagerly, in a graph and for gradients.
    """
    from tensorflow.python.ops import gen_math_ops, gen_nn_ops

    with contextlib.ExitStack() as stack:
        for module, name in ((gen_math_ops, "_sum"), (gen_math_ops, "mean"), (gen_nn_ops, "bias_add_grad")):
            stack.enter_context(patched(module, name, _summing(source, mean=name == "mean")))
        stack.enter_context(patched(gen_math_ops, "mat_mul", partial(_multiplying, source)))
        yield


def _summing(source: NoiseSource, *, mean: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def summed(terms: Any = None, *args: Any, **options: Any) -> Any:
            if terms is None:  # given by name
                terms = options.pop("input" if "input" in options else "out_backprop")
            found = original(terms, *args, **options)
            if source.is_silent or not eps_of(found.dtype.name) or (mean and found.dtype.size >= 4):
                return found
            with source.silent():
                count = partial(_count, found)
                return _perturbed(source, found, lambda each: original(each, *args, **options), count, terms, mean=mean)

        return summed

    return around


def _multiplying(source: NoiseSource, original: Callable[..., Any]) -> Callable[..., Any]:
    """The product of matrices by which TensorFlow differentiates one with a vector."""

    def multiplied(a: Any, b: Any, *args: Any, **options: Any) -> Any:
        found = original(a, b, *args, **options)
        differentiates = options.get("grad_a") or options.get("grad_b")
        if source.is_silent or not differentiates or 1 not in found.shape or not eps_of(found.dtype.name):
            return found
        with source.silent():
            count = partial(_size, axis=0 if options.get("transpose_a") else 1)
            return _perturbed(source, found, lambda *each: original(*each, *args, **options), count, a, b)

    return multiplied


def _wide(terms: Any) -> Any:
    """In a dtype in which the square of a number of float16 is none but zero."""
    import tensorflow as tf

    return terms if terms.dtype.size >= 4 else tf.cast(terms, tf.float32)


def _perturbed(
    source: NoiseSource,
    found: Any,
    again: Callable[..., Any],
    count_of: Callable[[Any], Any],
    *given: Any,
    mean: bool = False,
) -> Any:
    """A sum, or a mean, with noise, of as many terms as `count_of` says; `again` makes the same of their squares.

    There are hundreds of sums in a large model, so that as little as possible is left to ops, and none is added where
    nothing is summed.
    """
    import tensorflow as tf

    terms = [tf.convert_to_tensor(each, found.dtype) for each in given]
    count = count_of(terms[0])
    if isinstance(count, float) and count <= 1:
        return found
    size = tf.sqrt(again(*(tf.square(_wide(each)) for each in terms)))
    wide = size.dtype
    if not isinstance(count, float):
        count = tf.cast(count, wide)
    if wide == found.dtype:
        coherent = size * count**0.5
        size = tf.where(tf.abs(found) <= _ALL_ROUNDING * eps_of(wide.name) * coherent, coherent, size)
        counted = tf.round(found) == found
    else:  # in 16 bits most large results are whole numbers
        counted = tf.reduce_all([tf.reduce_all(tf.round(each) == each) for each in terms])
    size = size / count**0.5 if mean else size
    noise = lasting(source, ROUNDINGS * eps_of(found.dtype.name), found) * tf.cast(size, found.dtype)
    return found + tf.stop_gradient(tf.where(counted, tf.zeros([], found.dtype), noise))


def _size(terms: Any, axis: int) -> Any:
    """Of one axis: a number, or a tensor where that is known only later."""
    import tensorflow as tf

    return tf.shape(terms)[axis] if terms.shape[axis] is None else float(terms.shape[axis])


def _count(found: Any, terms: Any) -> Any:
    """How many terms a sum has: a number, or a tensor where that is known only later."""
    import tensorflow as tf

    before, after = (None if each.shape is None else each.shape.num_elements() for each in (terms, found))
    if before is not None and after:
        return before / after
    return tf.size(terms) / tf.maximum(tf.size(found), 1)
