"""Gradients that a program casts to 16 bits, such as to send less: by an eps of that dtype where they are cast.

A replica rounds its own part of a gradient, and one device rounds the whole. Noise in the terms does not show it: it is
that of a finer dtype, and is rounded away. What `gradients` moves is what a tape gives; this is what the program makes
of it element by element, such as a quotient by the scale of a loss.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.noise.gradients import sizes
from harness.recording.noise.protocol import NoiseSource, eps_of, patched
from harness.recording.noise.signs import signed, size_key

_OPS_MAX = 64
"""Between a gradient and its cast."""
_BY_ELEMENT = (
    "AddV2",
    "Cast",
    "ClipByValue",
    "ConcatV2",
    "DivNoNan",
    "Identity",
    "Maximum",
    "Minimum",
    "Mul",
    "Neg",
    "RealDiv",
    "Reshape",
    "SelectV2",
    "Sub",
)


@contextlib.contextmanager
def active(source: NoiseSource) -> Iterator[None]:
    """Perturb what is cast to a coarser dtype in this context, if it is computed from a gradient.

    Of what is computed eagerly nobody knows from what, but that it is a gradient itself.
    """
    import tensorflow as tf
    from tensorflow.python.ops import gen_math_ops

    taken: dict[int, Any] = {}

    def noting(original: Callable[..., Any]) -> Callable[..., Any]:
        def gradient(*args: Any, **options: Any) -> Any:
            found = original(*args, **options)
            for each in tf.nest.flatten(found, expand_composites=True):
                taken[id(each)] = each
                if len(taken) > _OPS_MAX and not hasattr(each, "graph"):
                    taken.pop(next(iter(taken)))
            return found

        return gradient

    def casting(original: Callable[..., Any]) -> Callable[..., Any]:
        def cast(x: Any, dtype: Any, *args: Any, **options: Any) -> Any:
            kinds = getattr(getattr(x, "dtype", None), "name", ""), tf.as_dtype(dtype).name
            own, coarse = map(eps_of, kinds)
            if not 0 < own < coarse or source.is_silent or not _is_of_gradient(x, taken):
                return original(x, dtype, *args, **options)
            with source.silent():
                return original(_moved(source, x, coarse), dtype, *args, **options)

        return cast

    with patched(tf.GradientTape, "gradient", noting), patched(gen_math_ops, "cast", casting):
        yield


def _is_of_gradient(value: Any, taken: dict[int, Any]) -> bool:
    waiting, seen = [value], {id(value)}
    while waiting and len(seen) < _OPS_MAX:
        each = waiting.pop()
        if taken.get(id(each)) is each:
            return True
        if hasattr(each, "graph") and each.op.type in _BY_ELEMENT:
            more = [inner for inner in each.op.inputs if inner.dtype.is_floating and id(inner) not in seen]
            seen.update(map(id, more))
            waiting += more
    return False


def _moved(source: NoiseSource, gradient: Any, eps: float) -> Any:
    """A gradient moved by an eps of the size that its terms have: of a vector the largest element's."""
    import tensorflow as tf

    still = tf.stop_gradient(gradient)
    size = sizes(still) if (still.shape.rank or 0) > 1 else tf.reduce_max(tf.abs(still))
    noise = signed(source, eps, still, size_key(still)) * size
    return gradient + tf.where(still == 0, tf.zeros([], still.dtype), noise)
