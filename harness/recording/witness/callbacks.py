"""What the callbacks of `fit` remember in numbers of Python, which no checkpoint has unless they say so."""

from __future__ import annotations

import contextlib
import numbers
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from harness.evidence.trace import MEMORY, Array, SeenVariable
from harness.recording.patches import patched
from harness.recording.witness.protocol import WitnessState

_WRITERS = (
    "BackupAndRestore",
    "CSVLogger",
    "History",
    "ModelCheckpoint",
    "ProgbarLogger",
    "RemoteMonitor",
    "TensorBoard",
)
"""Callbacks of Keras that change nothing of a training, whatever they remember."""


@contextlib.contextmanager
def active(gathered: WitnessState) -> Iterator[None]:
    """Know what the callbacks remember that a training in this context has begun with."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def on_train_begin(callbacks: Any, *args: Any, **options: Any) -> Any:
            known = weakref.ref(callbacks)
            gathered.memory = lambda: _memory(known())
            return original(callbacks, *args, **options)

        return on_train_begin

    with contextlib.ExitStack() as stack:
        for name in ("keras", "tf_keras"):
            if name in sys.modules:
                stack.enter_context(patched(sys.modules[name].callbacks.CallbackList, "on_train_begin", around))
        yield


def _memory(callbacks: Any) -> tuple[SeenVariable, ...]:
    import numpy as np

    return tuple(
        SeenVariable(f"{type(each).__name__}.{name}", MEMORY, (Array.of(np.asarray(value, np.float64)),))
        for each in getattr(callbacks, "callbacks", ())
        if type(each).__name__ not in _WRITERS
        for name, value in vars(each).items()
        if not name.startswith("_") and isinstance(value, numbers.Real)
    )
