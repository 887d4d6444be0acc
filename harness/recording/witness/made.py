"""Where variables are made: `tf.Variable` and the older class that tf_keras uses."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from harness.recording.witness.protocol import Gathered

__all__ = ["active"]


@contextlib.contextmanager
def active(gathered: Gathered) -> Iterator[None]:
    """Note every variable that is made in this context, a distributed one as a whole."""
    from tensorflow.python.ops import variable_v1, variables

    inside = threading.local()
    with contextlib.ExitStack() as stack:
        for kind in (variables.Variable, variable_v1.VariableV1):
            around = _noting(gathered, kind.__dict__["_variable_call"].__func__, inside)
            stack.enter_context(mock.patch.object(kind, "_variable_call", classmethod(around)))
        yield


def _noting(gathered: Gathered, original: Callable[..., Any], inside: threading.local) -> Callable[..., Any]:
    def variable_call(kind: Any, *args: Any, **options: Any) -> Any:
        if getattr(inside, "depth", 0):  # the copies that a distributed variable is made of
            return original(kind, *args, **options)
        inside.depth = 1
        try:
            made = original(kind, *args, **options)
        finally:
            inside.depth = 0
        if made is not None:
            with gathered.looking("variables"):
                gathered.registry.add(made)
        return made

    return variable_call
