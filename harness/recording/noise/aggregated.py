"""What replicas assign to variables that put their values together, in 16 bits: by 2 eps of what is added up.

A variable with `aggregation`, or one that is added up when it is read, sums or averages what each replica gives it. One
device has one value, and nothing to add up. In float32 the noise of gradients is as large as that rounding; what was
cast to 16 bits on its way has none of that left.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.noise.protocol import NoiseSource, eps_of, patched
from harness.recording.noise.signs import lasting

ROUNDINGS = 2.0
"""As of reductions: each replica's part is rounded, and so is their sum."""

_COARSE = 2
"""Bytes of the dtypes that are perturbed."""


@contextlib.contextmanager
def active(source: NoiseSource) -> Iterator[None]:
    """Perturb in this context what is assigned to variables of 16 bits of which replicas have copies."""
    from tensorflow.python.ops import resource_variable_ops

    with contextlib.ExitStack() as stack:
        for name in ("assign", "assign_add", "assign_sub"):
            around = _assigning(source, adds=name != "assign")
            stack.enter_context(patched(resource_variable_ops.ResourceVariable, name, around))
        yield


def _assigning(source: NoiseSource, *, adds: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def assign(variable: Any, value: Any, *args: Any, **options: Any) -> Any:
            if not source.is_silent and _is_put_together(variable):
                value = _moved(source, variable, value, adds=adds)
            return original(variable, value, *args, **options)

        return assign

    return around


def _is_put_together(variable: Any) -> bool:
    import tensorflow as tf

    coarse = variable.dtype.is_floating and variable.dtype.size == _COARSE
    several = variable.aggregation in (tf.VariableAggregation.SUM, tf.VariableAggregation.MEAN)
    return coarse and (several or variable.synchronization == tf.VariableSynchronization.ON_READ)


def _moved(source: NoiseSource, variable: Any, value: Any, *, adds: bool) -> Any:
    import tensorflow as tf

    with source.silent():
        value = tf.convert_to_tensor(value, variable.dtype)
        # Parts of replicas that nearly cancel are as large as those of other elements.
        typical = tf.sqrt(tf.reduce_mean(tf.square(tf.cast(value, tf.float32))))
        size = tf.maximum(tf.abs(value), tf.cast(typical, value.dtype))
        size += tf.abs(variable.read_value()) if adds else 0
        noise = size * lasting(source, ROUNDINGS * eps_of(value.dtype.name), size)
        return value + tf.where(value == tf.round(value), tf.zeros([], value.dtype), noise)
