"""Totals in 16 bits, such as a mean loss, where they are cast to a finer dtype: by an eighth of an eps.

Each replica rounds its own total to 16 bits, and one device that of all examples. Noise in the terms does not show it:
it moves a total by less than the distance to the next number, and is rounded away. So the total is moved where it
leaves for a finer dtype. With K = 16 the bound is 2 eps of it, as for a value that is rounded for its report.

Of a difference of totals, such as of two mean scores, the larger one counts. An activation, a rate and a weight are
rounded alike on each replica, and stay.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.noise.protocol import NoiseSource, eps_of, patched
from harness.recording.noise.signs import lasting

_PART = 0.125
_OPS_MAX = 256
"""A scalar that is computed from a total is close to it."""
_PICKING = ("StridedSlice", "Slice", "GatherV2", "GatherNd", "ResourceGather", "Unpack")
_ADDING = ("AddV2", "Add", "AddN", "Sub", "Neg", "Identity", "StopGradient")


@contextlib.contextmanager
def active(source: NoiseSource) -> Iterator[None]:
    """Perturb scalars that are cast from 16 bits to a finer dtype in this context, if they are computed from a total.

    Of what is computed eagerly nobody knows from what, but that it is a total itself.
    """
    from tensorflow.python.ops import gen_math_ops

    totals = _Eager()
    with contextlib.ExitStack() as stack:
        for name in ("_sum", "mean"):
            stack.enter_context(patched(gen_math_ops, name, totals.noting))
        stack.enter_context(patched(gen_math_ops, "cast", lambda original: _casting(source, totals, original)))
        yield


class _Eager:
    """Totals that were computed eagerly, by `id`; the last ones only."""

    def __init__(self) -> None:
        self._last: dict[int, Any] = {}

    def noting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Around a sum."""

        def summed(*args: Any, **options: Any) -> Any:
            found = original(*args, **options)
            if _is_coarse_scalar(found) and not hasattr(found, "graph"):
                self._last[id(found)] = found
                if len(self._last) > _OPS_MAX:
                    self._last.pop(next(iter(self._last)))
            return found

        return summed

    def __contains__(self, value: Any) -> bool:
        return self._last.get(id(value)) is value


def _casting(source: NoiseSource, totals: _Eager, original: Callable[..., Any]) -> Callable[..., Any]:
    def cast(x: Any, *args: Any, **options: Any) -> Any:
        found = original(x, *args, **options)
        if source.is_silent or not _is_coarse_scalar(x) or not 0 < eps_of(found.dtype.name) < eps_of(x.dtype.name):
            return found
        with source.silent():
            return _moved(source, found, _added(x, totals), eps_of(x.dtype.name))

    return cast


def _moved(source: NoiseSource, found: Any, added: list[Any], eps: float) -> Any:
    import tensorflow as tf

    if not added:
        return found
    size = tf.reduce_max([tf.abs(tf.cast(each, found.dtype)) for each in added])
    return found + tf.stop_gradient(size * lasting(source, _PART * eps, found))


def _is_coarse_scalar(value: Any) -> bool:
    import tensorflow as tf

    return isinstance(value, tf.Tensor) and value.shape.rank == 0 and value.dtype in (tf.float16, tf.bfloat16)


def _added(value: Any, totals: _Eager) -> list[Any]:
    """A scalar and those of its dtype that it is a sum of; nothing if it is not computed from a total."""
    if not hasattr(value, "graph"):
        return [value] if value in totals else []
    added, waiting, seen, is_total = [value], [value], {id(value)}, False
    while waiting and len(seen) < _OPS_MAX:
        each = waiting.pop()
        for inner in each.op.inputs:
            if not inner.dtype.is_floating or id(inner) in seen:
                continue
            if inner.shape.num_elements() != 1:
                is_total |= each.op.type not in _PICKING
                continue
            seen.add(id(inner))
            waiting.append(inner)
            if each.op.type in _ADDING and inner.dtype == value.dtype and any(each is one for one in added):
                added.append(inner)
    return added if is_total else []
