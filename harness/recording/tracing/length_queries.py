"""Hears a program ask in Python for a length that is left open, while its function is traced.

The function is traced for any number of examples, and the program itself traces it for as many as it has. Both graphs
mean the same as far as TensorFlow and Keras made them; a program that asks gets `None` in one and a number in the
other, and may make whatever it likes of that.
"""

from __future__ import annotations

import contextlib
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from harness.recording.patches import patched
from harness.recording.watch.places import Places
from simulator.agent.places import place

_CONVERTED = "__autograph_generated_file"
_AUTOGRAPH = f"{Path('tensorflow', 'python', 'autograph')}{os.sep}"
# What of a shape tells whether a length is known; `x.shape[0]` and `x.shape[1:]` are told apart by what they give.
_TELLING = (
    "__iter__",
    "as_list",
    "as_proto",
    "is_fully_defined",
    "num_elements",
    "is_compatible_with",
    "__eq__",
    "__repr__",
    "__str__",
)


class LengthQueries:
    """Where a program has asked, in sentences."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self.found: list[str] = []

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Listen in this context."""
        from tensorflow.python.framework import tensor_shape

        def listening(original: Callable[..., Any]) -> Callable[..., Any]:
            def ask(shape: Any, *args: Any) -> Any:
                found = original(shape, *args)
                if _tells(original.__name__, shape, found) and is_program_query(self._places):
                    self._note()
                return found

            return ask

        with contextlib.ExitStack() as stack:
            for name in ("__getitem__", *_TELLING):
                stack.enter_context(patched(tensor_shape.TensorShape, name, listening))
            dims = tensor_shape.TensorShape.dims.fget
            tensor_shape.TensorShape.dims = property(listening(dims))
            try:
                yield
            finally:
                tensor_shape.TensorShape.dims = property(dims)

    def _note(self) -> None:
        number = self._places.caller()
        frame = None if number is None else self._places.frames[number]
        where = "the program" if frame is None else place(Path(frame.file).name, frame.line)
        why = f"{where} asks in Python for a length that is open here, and may do something else where it is known"
        if why not in self.found:
            self.found.append(why)


def _tells(name: str, shape: Any, found: Any) -> bool:
    if name == "__getitem__":
        return found is None or getattr(found, "value", 0) is None
    dims = shape._dims  # noqa: SLF001 - the public ones are those that are listened to
    return dims is not None and None in dims


def is_program_query(places: Places) -> bool:
    """Whether it was the program that called the function that asks this, and not TensorFlow or Keras for it."""
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - documented so
    while frame is not None and _passes_on(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return False
    file = frame.f_code.co_filename
    return _CONVERTED in file or places.is_own(file)


_PATHS = sysconfig.get_paths()


def _passes_on(file: str) -> bool:
    """AutoGraph and the standard library call for somebody else."""
    if _CONVERTED in file:
        return False
    standard = file.startswith((_PATHS["stdlib"], "<frozen")) and not file.startswith(
        (_PATHS["purelib"], _PATHS["platlib"])
    )
    return standard or _AUTOGRAPH in file
