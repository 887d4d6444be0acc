"""Casts: tells which dtype a program computes in; and data that is cast to float32 gets the noise of float32.

A cast rounds each element by itself, so that it is the same on one replica and on many: it is no reason for a noise,
but of a total (see `totals`).
What is summed in the coarse dtype is one, and that is perturbed where it is summed: in sums, and in gradients as they
come out of the coarse dtype. A gradient goes back through each cast that something was computed behind, by hand or by
the policy of a layer, and through none that was made for a report only. So a layer in float32 has the noise of float32,
and what comes to it from those in 16 bits.

Data is another matter: float64 with noise of float64's eps has none any more as float32.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.noise import gradients
from harness.recording.noise.datasets import ROUNDINGS
from harness.recording.noise.protocol import NoiseSource, differentiated, eps_of, patched
from harness.recording.noise.signs import moved, size_key, together


@contextlib.contextmanager
def active(source: NoiseSource) -> Iterator[None]:
    """Note the dtypes of casts that are differentiated in this context, and perturb gradients that they make finer."""
    from tensorflow.python.ops import gen_math_ops

    with differentiated("Cast", _noting(source)), patched(gen_math_ops, "cast", _casting(source)):
        yield


def _noting(source: NoiseSource) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def around(differentiate: Callable[..., Any]) -> Callable[..., Any]:
        def noting(op: Any, gradient: Any) -> Any:
            found = differentiate(op, gradient)
            kinds = op.inputs[0].dtype.name, gradient.dtype.name
            own, behind = map(eps_of, kinds)
            if own and behind and own != behind:
                source.note(max(kinds, key=eps_of))
                source.computed = max(source.computed, own, behind)
                if not source.is_silent:
                    with source.silent():
                        return _alike(source, found, gradient) if own > behind else _finer(source, found, behind)
            return found

        return noting

    return around


def _finer(source: NoiseSource, found: Any, behind: float) -> Any:
    """A gradient that was computed in a coarser dtype, of this eps.

    That of activations, whose examples are not counted, is no sum over them: its elements are rounded by themselves.
    """
    import tensorflow as tf

    def one(part: Any) -> Any:
        if not part.dtype.is_floating:
            return part
        moved = part + gradients.noise(source, part, behind, cancels=part.shape.is_fully_defined())
        source.behind[id(moved)] = moved
        return moved

    return tf.nest.map_structure(one, found, expand_composites=True)  # of IndexedSlices the values, among others


def _alike(source: NoiseSource, found: Any, gradient: Any) -> Any:
    """A gradient that was cast to a coarser dtype: where its elements are equal, as of a mean, they are rounded alike.

    No number of them averages that out, and another number of examples, as replicas have, is rounded otherwise.
    """
    import tensorflow as tf

    first = tf.reshape(gradient, [-1])[:1]
    equal = tf.reduce_all(gradient == first)
    return tf.where(equal, together(source, found, eps_of(found.dtype.name)), found)


def _casting(source: NoiseSource) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
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
