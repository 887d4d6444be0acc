"""Iterators of tf.data without the thread that tunes them, which may make their end wait.

TensorFlow's `Model::OptimizeLoop` (tensorflow/core/framework/model.cc) sleeps for a period that doubles up to a minute,
and is woken when its iterator is given up before it can see that it was (`CancellationManager::StartCancel` calls back
first). Where it is quicker it sleeps on, and the program with it, for up to as long as it has iterated: one end in
eight, on two cores.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.patches import patched

_left: list[Any] = []


def leave_iterators() -> None:
    """Have no iterator that is there come to its end before this process does, which waits for none."""
    from tensorflow.python.data.ops import iterator_ops, multi_device_iterator_ops

    kinds = (iterator_ops.OwnedIterator, multi_device_iterator_ops.OwnedMultiDeviceIterator)
    _left.extend(each for each in gc.get_objects() if issubclass(type(each), kinds))


@contextlib.contextmanager
def without_autotune() -> Iterator[None]:
    """Within this context no iterator tunes its dataset, whose elements and their order stay what they are."""
    import tensorflow as tf
    from tensorflow.python.data.ops import iterator_ops

    options = tf.data.Options()
    options.autotune.enabled = False

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def create(iterator: Any, dataset: Any) -> Any:
            return original(iterator, dataset.with_options(options))

        return create

    with patched(iterator_ops.OwnedIterator, "_create_iterator", around):
        yield
