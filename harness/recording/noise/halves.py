"""Gradients that are summed in 16 bits: perturbed by what they lose, found by computing them again in float32.

How far such a sum is off depends on the kernel, and no rule of roundings tells it. On a CPU the bias of an image layer
is added up in bfloat16 itself: over 4,096 positions it loses 5 eps of the sum of sizes, and twenty times its own; in
float16 it loses a quarter of an eps. The filter of a convolution loses 3 eps in float16, and a fifth in bfloat16.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.noise.gradients import sizes
from harness.recording.noise.protocol import NoiseSource, differentiated
from harness.recording.noise.signs import signed, size_key

_SUMMED = ("BiasAdd", "Conv2D", "Conv3D", "DepthwiseConv2dNative")
"""Operations whose gradients are sums over examples, positions, or channels."""
_TIMES = 3.0
"""Times what one computation loses: run and reference each lose as much, and no more is seen of either than once."""


class _Wide:
    """An operation as if its inputs were float32, for the function that differentiates it."""

    def __init__(self, op: Any) -> None:
        import tensorflow as tf

        self._op = op
        # A tape keeps what the function reads: of a bias no input.
        self.inputs = [None if each is None else tf.cast(each, tf.float32) for each in op.inputs or ()]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._op, name)

    def get_attr(self, name: str) -> Any:
        """The dtype is another one; all else is the operation's."""
        import tensorflow as tf

        return tf.float32 if name == "T" else self._op.get_attr(name)


@contextlib.contextmanager
def active(source: NoiseSource) -> Iterator[None]:
    """Perturb them in this context."""
    with contextlib.ExitStack() as stack:
        for kind in _SUMMED:
            stack.enter_context(differentiated(kind, _measuring(source)))
        yield


def _measuring(source: NoiseSource) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def around(differentiate: Callable[..., Any]) -> Callable[..., Any]:
        def measuring(op: Any, gradient: Any) -> Any:
            import tensorflow as tf

            found = differentiate(op, gradient)
            if source.is_silent or gradient.dtype not in (tf.float16, tf.bfloat16):
                return found
            with source.silent():
                return [
                    each if each is None or each is gradient else _moved(source, each, wide)
                    for each, wide in zip(found, _exact(differentiate, op, gradient), strict=True)
                ]

        return measuring

    return around


def _exact(function: Callable[..., Any], op: Any, gradient: Any) -> Any:
    import tensorflow as tf

    return function(_Wide(op), tf.cast(gradient, tf.float32))


def _moved(source: NoiseSource, gradient: Any, exact: Any) -> Any:
    """A gradient moved by what it has lost: a vector by the most of any element."""
    import tensorflow as tf

    lost = tf.abs(tf.cast(gradient, tf.float32) - exact)
    size = tf.reduce_max(lost) if lost.shape.rank == 1 else sizes(lost)
    noise = signed(source, _TIMES, exact, size_key(exact)) * size
    return tf.where(gradient == 0, gradient, gradient + tf.cast(noise, gradient.dtype))
