"""Signs that need no state: drawn from the seed and from a key, which the perturbed numbers themselves give."""

from __future__ import annotations

from typing import Any

from harness.recording.noise.protocol import NoiseSource, eps_of

# Elements of a constant in a graph.
_CONSTANT_MAX = 10_000
_INTEGERS = {2: "int16", 4: "int32", 8: "int64"}


def content_key(value: Any) -> Any:
    """A number that follows every bit of a tensor: for what is the same in all runs, as data is."""
    import tensorflow as tf

    bits = tf.bitcast(value, _INTEGERS[value.dtype.size])
    # Wraps; the order of whole numbers changes nothing.
    return tf.bitcast(tf.reduce_sum(tf.cast(bits, tf.int64)), tf.int32)[0]


def size_key(value: Any) -> Any:
    """A number that follows the largest element, and that rounding hardly ever changes.

    Numbers that have been computed are not the same in the two runs of a pair, and their signs still have to be
    opposite. So the key is made of the leading 12 bits of the mantissa.
    """
    import tensorflow as tf

    largest = tf.cast(tf.reduce_max(tf.abs(value)), tf.float32)
    return tf.bitwise.right_shift(tf.bitcast(largest, tf.int32), 12)


def signed(source: NoiseSource, amount: float, like: Any, key: Any) -> Any:
    """A tensor of the shape and dtype of another one, whose elements are plus or minus the amount."""
    import tensorflow as tf

    drawn = tf.random.stateless_uniform(
        tf.shape(like), seed=tf.stack([source.seed, key]), minval=None, maxval=None, dtype=tf.int32
    )
    up = tf.constant(source.sign * amount, like.dtype)
    return tf.where(drawn < 0, -up, up)


def lasting(source: NoiseSource, amount: float, like: Any) -> Any:
    """As `signed`, but other signs for each place in the program, and in a graph the same at each step.

    There are hundreds of such places in a large model: where the shape is known, the signs are one constant.
    """
    import numpy as np
    import tensorflow as tf

    elements, site = like.shape.num_elements(), source.site()
    if elements is None or elements > _CONSTANT_MAX:
        return signed(source, amount, like, tf.constant(site))
    random = np.random.default_rng([source.seed, site])
    return tf.constant(source.sign * amount * random.choice([-1.0, 1.0], size=like.shape.as_list()), like.dtype)


def moved(source: NoiseSource, value: Any, roundings: float, key: Any) -> Any:
    """Each element of a floating tensor moved by some eps of itself, in either direction.

    Whole numbers, infinite ones included, stay as they are, and the others do not pass one: what is a count, a mask or
    a padding stays so, and what lies between 0 and 1 does. The gradient is that of the tensor itself.
    """
    import tensorflow as tf

    floor = tf.floor(value)
    away = value * (1 + signed(source, roundings * eps_of(value.dtype.name), value, key))
    away = tf.maximum(floor, tf.minimum(away, floor + 1))
    found = value + tf.stop_gradient(tf.where(value == floor, tf.zeros_like(value), away - value))
    if not tf.executing_eagerly():
        found.set_shape(value.shape)
    return found


def together(source: NoiseSource, value: Any, eps: float) -> Any:
    """A tensor all of whose elements are moved by the same eps of themselves: what is rounded alike is off alike."""
    import tensorflow as tf

    # In float32, where 1 plus an eps of any coarser dtype is not rounded away.
    factor = 1.0 + lasting(source, eps, tf.zeros([], tf.float32))
    return tf.cast(tf.cast(value, tf.float32) * factor, value.dtype)
