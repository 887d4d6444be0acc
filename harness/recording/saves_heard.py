"""Checkpoints that a training writes, heard of before they are: `tf.train.Checkpoint` and models of both Kerases."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.patches import patched

_MODELS = ("keras.src.models.model", "tf_keras.src.engine.training")


@contextlib.contextmanager
def saves_heard(listener: Callable[[], None]) -> Iterator[None]:
    """Call `listener` in this context before the program's own thread saves variables, as they are then.

    What another thread saves has been copied earlier, and nobody knows when.
    """
    import tensorflow as tf
    from tensorflow.python.checkpoint.checkpoint import TrackableSaver

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def save(*args: Any, **options: Any) -> Any:
            if threading.current_thread() is threading.main_thread() and not tf.inside_function():
                listener()
            return original(*args, **options)

        return save

    owners = [(TrackableSaver, "save")]
    for module in (sys.modules[name] for name in _MODELS if name in sys.modules):
        owners += [(module.Model, "save"), (module.Model, "save_weights")]
    with contextlib.ExitStack() as stack:
        for owner, name in owners:
            stack.enter_context(patched(owner, name, around))
        yield
