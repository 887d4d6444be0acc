"""Gradients that a `tf.GradientTape` returns: by 4 eps of the size that the roundings of an element have.

A gradient is a sum over examples, and where its terms cancel, it keeps the rounding of its partial sums. Of a matrix
the neighbours tell how large the terms are: all elements of a row share what comes from one side, such as one feature,
and those of a column what comes from the other, one output. So the size of an element is that of its row times that of
its column; rows and columns of unlike scales have sizes of their own. Of vectors and scalars nothing tells it, and the
size is the element itself: there the terms are perturbed, by the noise in data and in sums.

It is the gradient that has to be perturbed and not the update: an optimizer such as Adam makes a full step of a tiny
gradient, whose sign may be all rounding. An element that is exactly zero, of an input that is always zero for example,
is zero in any order of summation, and stays.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.noise.protocol import NoiseSource, compute_eps, eps_of, patched
from harness.recording.noise.signs import signed, size_key, together

ROUNDINGS = 4.0
"""A gradient is rounded once per replica when it is computed, and once or twice more when replicas are summed."""

_TURNED = 1 / 2
"""Eps of the coarsest dtype that anything is computed in, which each gradient has at least.

Activations in 16 bits are rounded alike on one replica and on many, but for those that another sum brings to the other
side of a rounding: of 784 products in float16 one in 700 on a CPU, which moves a gradient in float32 behind it by a
third of such an eps; after the 36 steps of an LSTM it is moved by 0.7 of one. Reruns may have none of them.
"""


@contextlib.contextmanager
def active(source: NoiseSource) -> Iterator[None]:
    """Perturb every gradient that is taken with `tf.GradientTape` in this context."""
    import tensorflow as tf

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def gradient(*args: Any, **options: Any) -> Any:
            found = original(*args, **options)
            if source.is_silent:
                return found
            with source.silent():
                parts = tf.nest.flatten(found, expand_composites=True)  # of IndexedSlices the values, among others
                target = args[1] if len(args) > 1 else options.get("target")
                moved = _scaled(source, _perturbed(source, parts), target)
                source.behind.clear()
                return tf.nest.pack_sequence_as(found, moved, expand_composites=True)

        return gradient

    with patched(tf.GradientTape, "gradient", around):
        yield


def _scaled(source: NoiseSource, gradients: list[Any], target: Any) -> list[Any]:
    """All moved alike by the rounding of what is differentiated: in 16 bits, of one over the number of examples."""
    import tensorflow as tf

    coarse = max((eps_of(each.dtype.name) for each in tf.nest.flatten(target) if hasattr(each, "dtype")), default=0.0)
    if coarse <= eps_of("float32"):
        return gradients
    return [
        together(source, each, coarse) if each is not None and each.dtype.is_floating else each for each in gradients
    ]


def _perturbed(source: NoiseSource, gradients: list[Any]) -> list[Any]:
    """All gradients of one call; vectors of a dtype together, since most variables of a large model are small ones."""
    import tensorflow as tf

    found = list(gradients)
    small: dict[Any, list[int]] = {}
    for index, gradient in enumerate(gradients):
        if gradient is None or not gradient.dtype.is_floating or id(gradient) in source.behind:
            continue
        source.note(gradient.dtype.name)
        if gradient.shape.rank in (0, 1) and gradient.shape.is_fully_defined():
            small.setdefault(gradient.dtype, []).append(index)
        else:
            found[index] = gradient + noise(source, gradient)
    for indices in small.values():
        vectors = [gradients[index] for index in indices]
        together = noise(source, tf.concat([tf.reshape(vector, [-1]) for vector in vectors], 0))
        parts = tf.split(together, [vector.shape.num_elements() for vector in vectors])
        for index, vector, part in zip(indices, vectors, parts, strict=True):
            found[index] = vector + tf.reshape(part, vector.shape)
    return found


def noise(source: NoiseSource, gradient: Any, eps: float | None = None, *, cancels: bool = True) -> Any:
    """What to add to a gradient that was computed in a dtype of this eps: in its own, if none is given.

    Its terms may be larger than itself if it `cancels`.
    """
    import tensorflow as tf

    own = eps_of(gradient.dtype.name) if eps is None else eps
    amount = max(ROUNDINGS * own, _TURNED * max(source.computed, compute_eps()))
    still = tf.stop_gradient(gradient)
    found = signed(source, amount, still, size_key(still)) * (sizes(still) if cancels else tf.abs(still))
    return tf.where(still == 0, tf.zeros([], still.dtype), found)


def sizes(gradient: Any) -> Any:
    """The size of the terms of each element, never less than the element itself.

    A matrix, whose columns are the last axis that is longer than one (of a depthwise convolution the channels), is
    balanced: first all rows are divided by their largest elements, then all columns by what is their largest then, and
    at last rows again. The size is the product of a row's and a column's divisor.
    """
    import tensorflow as tf

    axes = [axis for axis, length in enumerate(gradient.shape.as_list() if gradient.shape.rank else ()) if length != 1]
    if len(axes) < 2:
        return tf.abs(gradient)
    # float16 has too few exponents for quotients of sizes.
    wide = gradient if gradient.dtype.size >= 4 else tf.cast(gradient, tf.float32)
    matrix = tf.reshape(tf.abs(wide), [-1, tf.shape(gradient)[axes[-1]]])
    columns = _largest(tf.math.divide_no_nan(matrix, _largest(matrix, 1)), 0)
    rows = _largest(tf.math.divide_no_nan(matrix, columns), 1)
    return tf.cast(tf.reshape(rows * columns, tf.shape(gradient)), gradient.dtype)


def _largest(matrix: Any, axis: int) -> Any:
    import tensorflow as tf

    return tf.reduce_max(matrix, axis=axis, keepdims=True)
