"""Graphs that are run eagerly: who follows a run waits for its step when the graph of it has been built, not before.

To build a graph takes most of the first step's time, and nothing that it computes with.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.patches import patched
from harness.recording.witness.protocol import WitnessState

_OF_VARIABLES = ("ReadVariableOp", "Assign", "Resource")
"""How the names of operations begin that read variables, or change them: while a graph is built Python may ask too."""


@contextlib.contextmanager
def active(gathered: WitnessState) -> Iterator[None]:
    """Tell `gathered.steps` before anything in this context reads variables, where those follow a run that goes on."""
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.eager import context

    steps = gathered.steps
    if steps is None or not steps.waits:
        yield
        return

    def computes() -> None:
        if gathered.threads.is_main and not gathered.registry.is_making:
            steps.computes()

    def running(original: Callable[..., Any]) -> Callable[..., Any]:
        def call_function(*args: Any, **options: Any) -> Any:
            computes()
            return original(*args, **options)

        return call_function

    def reading(original: Callable[..., Any]) -> Callable[..., Any]:
        def execute(*args: Any) -> Any:
            if len(args) > 1 and str(args[1]).startswith(_OF_VARIABLES):
                computes()
            return original(*args)

        return execute

    with patched(context.Context, "call_function", running), patched(pywrap_tfe, "TFE_Py_FastPathExecute", reading):
        yield
