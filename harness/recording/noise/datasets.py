"""Datasets: floating elements where an iterator or a loop takes them out, by 4 eps of themselves.

It is the elements that are perturbed and not the dataset: a dataset with one more `map` would read ahead and be saved
in another way. What runs inside of `tf.data`, a `filter` for example, sees what it always sees. Signs follow the
content of a batch and the place in it. So they differ between examples, even between those with equal numbers, and a
sum over examples whose terms cancel moves as far as its rounding does; and the same batch looks the same whenever it
comes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.noise.protocol import NoiseSource, eps_of, patched
from harness.recording.noise.signs import content_key, moved

ROUNDINGS = 4.0
"""As of gradients: a sum over the examples is rounded on each replica and again when replicas are summed."""


@contextlib.contextmanager
def active(source: NoiseSource) -> Iterator[None]:
    """Perturb what leaves a dataset in this context, eagerly and inside a `tf.function`.

    An iterator is asked by `next`, by `for`, and by Keras (`OwnedIterator._next_internal`); a `for` over an iterator in
    a `tf.function` asks for an optional; a `for` over a dataset there becomes a scan of the dataset and then a
    reduction to its last state, which is no element.
    """
    from tensorflow.python.data.ops import dataset_autograph, dataset_ops, iterator_ops, optional_ops

    loops: list[Any] = []

    def scanning(original: Callable[..., Any]) -> Callable[..., Any]:
        def scan(dataset: Any, *args: Any) -> Any:
            found = original(_noisy(source, dataset), *args)
            loops.append(found)
            return found

        return scan

    def reducing(original: Callable[..., Any]) -> Callable[..., Any]:
        def reduce(dataset: Any, *args: Any, **options: Any) -> Any:
            if loops:
                loops.pop()
                return original(dataset, *args, **options)
            return original(_noisy(source, dataset), *args, **options)

        return reduce

    with contextlib.ExitStack() as stack:
        stack.enter_context(patched(iterator_ops.OwnedIterator, "_next_internal", _returning(source)))
        stack.enter_context(patched(optional_ops._OptionalImpl, "get_value", _returning(source)))  # noqa: SLF001
        stack.enter_context(patched(dataset_ops.DatasetV2, "get_single_element", _returning(source)))
        stack.enter_context(patched(dataset_ops.DatasetV2, "reduce", reducing))
        stack.enter_context(patched(dataset_autograph, "_general_purpose_scan", scanning))
        # What a dataset is made of stays; its elements are perturbed when they come out.
        stack.enter_context(patched(dataset_ops.structure, "normalize_element", source.silently))
        yield


def _returning(source: NoiseSource) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            found = original(*args, **options)
            return found if source.is_silent else perturbed(source, found)

        return call

    return around


def _noisy(source: NoiseSource, dataset: Any) -> Any:
    """A dataset of the same elements, perturbed: only for loops that go through all of it at once."""
    unpacked = type(dataset.element_spec) is tuple
    found = dataset.map(lambda *parts: perturbed(source, parts if unpacked else parts[0]))
    return found if found.element_spec == dataset.element_spec else dataset


def perturbed(source: NoiseSource, element: Any) -> Any:
    """An element, or a part of one, with noise, also where the harness itself gives it to the program."""
    import tensorflow as tf

    with source.silent():
        return tf.nest.map_structure(lambda part: _moved(source, part), element, expand_composites=True)


def _moved(source: NoiseSource, part: Any) -> Any:
    import tensorflow as tf

    if not isinstance(part, tf.Tensor) or not eps_of(part.dtype.name):
        return part
    return moved(source, part, ROUNDINGS, content_key(part))
