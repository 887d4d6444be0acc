"""Casts: tells which dtype a program computes in; and data that is cast to float32 gets the noise of float32.

A cast rounds each element by itself, so that it is the same on one replica and on many: it is no reason for a noise.
What is summed in the coarse dtype is one, and that is perturbed where it is summed: in gradients, which here learn of
it, and in sums. A gradient goes back through each cast that something was computed behind, by hand or by the policy of
a layer, and through none that was made for a report only.

Data is another matter: float64 with noise of float64's eps has none any more as float32.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from harness.recording.noise.datasets import ROUNDINGS
from harness.recording.noise.protocol import Source, eps_of, patched
from harness.recording.noise.signs import moved, size_key, together

__all__ = ["active"]


@contextlib.contextmanager
def active(source: Source) -> Iterator[None]:
    """Note the dtypes of casts that are differentiated in this context."""
    from tensorflow.python.framework import ops, registry
    from tensorflow.python.ops import gen_math_ops

    entry = ops.gradient_registry._registry["Cast"]  # noqa: SLF001 - what is registered cannot be replaced otherwise
    differentiate = ops.gradient_registry.lookup("Cast")

    def noting(op: Any, gradient: Any) -> Any:
        kinds = [op.inputs[0].dtype, gradient.dtype]
        if all(kind.is_floating for kind in kinds) and kinds[0] != kinds[1]:
            coarse = max((kind.name for kind in kinds), key=eps_of)
            source.note(coarse)
            source.computed = max(source.computed, eps_of(coarse))
        found = differentiate(op, gradient)
        if all(kind.is_floating for kind in kinds) and kinds[0].size < kinds[1].size and not source.is_silent:
            with source.silent():
                return _alike(source, found, gradient)
        return found

    kind = registry._TYPE_TAG  # noqa: SLF001 - as above
    with mock.patch.dict(entry, {kind: noting}), patched(gen_math_ops, "cast", _casting(source)):
        yield


def _alike(source: Source, found: Any, gradient: Any) -> Any:
    """A gradient that was cast to a coarser dtype: where its elements are equal, as of a mean, they are rounded alike.

    No number of them averages that out, and another number of examples, as replicas have, is rounded otherwise.
    """
    import tensorflow as tf

    first = tf.reshape(gradient, [-1])[:1]
    equal = tf.reduce_all(gradient == first)
    return tf.where(equal, together(source, found, eps_of(found.dtype.name)), found)


def _casting(source: Source) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def cast(x: Any, *args: Any, **options: Any) -> Any:
            found = original(x, *args, **options)
            names = getattr(getattr(x, "dtype", None), "name", None), found.dtype.name
            if names != ("float64", "float32") or source.is_silent or found.shape.rank == 0:
                return found
            with source.silent():
                return moved(source, found, ROUNDINGS, size_key(found))

        return cast

    return around
