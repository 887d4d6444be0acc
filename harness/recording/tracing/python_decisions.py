"""What a program decides and changes between its steps, which is only tried: with stand-ins for what steps give."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from harness.recording.patches import patched
from harness.recording.tracing.length_queries import is_program_query
from harness.recording.watch.places import Places

BETWEEN = "what the program decides and changes between its steps is as it was with stand-ins for their results"
OTHERS = "what other functions give, which was only tried, is what they give on one device"

FROM_EXAMPLES = "what the program computes from examples between its steps is as it was for the examples of this run"

_CALLBACKS = f"{os.sep}callbacks"
# In these Keras itself reads and assigns, in the same way whatever the results are.
_KERAS_LOOPS = ("fit", "evaluate", "predict")
# What these assign is noted and compared.
_KERAS_RESETS = ("reset_state", "reset_states", "reset_metrics")
_INPUT = f"{os.sep}distribute{os.sep}input"


@contextlib.contextmanager
def decisions_heard(places: Places, note: Callable[[], None]) -> Iterator[None]:
    """Hear the program ask a tensor for yes or no."""
    from tensorflow.python.framework import ops

    def listening(original: Callable[..., Any]) -> Callable[..., Any]:
        def ask(tensor: Any) -> bool:
            if is_program_query(places):
                note()
            return bool(original(tensor))

        return ask

    with patched(ops._EagerTensorBase, "__bool__", listening):  # noqa: SLF001 - nothing public is asked
        yield


def of_program(places: Places) -> bool:
    """Whether it may be the program that makes the operation of which the caller hears, and not a library by itself."""
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - documented so
    called_back = reset = False
    while frame is not None:
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        if places.is_own(file) or places.is_harness(file):
            return places.is_own(file) and not reset
        if _INPUT in file:  # a data set that is distributed
            return False
        if places.is_keras(file):
            called_back = called_back or _CALLBACKS in file
            if name in _KERAS_LOOPS:
                return called_back
            reset = reset or name in _KERAS_RESETS
        frame = frame.f_back
    return not reset
