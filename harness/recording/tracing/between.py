"""What a program decides and changes between its steps, which is only tried: with stand-ins for what steps give."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from harness.recording.patches import patched
from harness.recording.tracing.asking import asked_by_program
from harness.recording.watch.places import Places

__all__ = ["BETWEEN", "OTHERS", "decisions_heard", "of_program"]

BETWEEN = "what the program decides and changes between its steps is as it was with stand-ins for their results"
OTHERS = "what other functions give, which was only tried, is what they give on one device"

_CALLBACKS = f"{os.sep}callbacks"
# By these Keras sets back and counts for itself, in the same way whatever the results are.
_KERAS_OWN = ("reset_state", "reset_states", "reset_metrics", "result", "fit", "evaluate", "predict")


@contextlib.contextmanager
def decisions_heard(places: Places, note: Callable[[], None]) -> Iterator[None]:
    """Hear the program ask a tensor for yes or no."""
    from tensorflow.python.framework import ops

    def listening(original: Callable[..., Any]) -> Callable[..., Any]:
        def ask(tensor: Any) -> bool:
            if asked_by_program(places):
                note()
            return bool(original(tensor))

        return ask

    with patched(ops._EagerTensorBase, "__bool__", listening):  # noqa: SLF001 - nothing public is asked
        yield


def of_program(places: Places) -> bool:
    """Whether it may be the program that makes the operation of which the caller hears, and not Keras by itself."""
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - documented so
    called_back = False
    while frame is not None:
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        if places.is_own(file) or places.is_harness(file):
            return places.is_own(file)
        if places.is_keras(file):
            called_back = called_back or _CALLBACKS in file
            if name in _KERAS_OWN:
                return called_back
        frame = frame.f_back
    return True
