"""Graphs that are run eagerly: who follows a run waits for its step when the graph of it has been built, not before.

To build a graph takes most of the first step's time, and nothing that it computes with.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.patches import patched
from harness.recording.witness.protocol import Gathered

__all__ = ["active"]


@contextlib.contextmanager
def active(gathered: Gathered) -> Iterator[None]:
    """Tell `gathered.steps` of every graph that is run in this context, where those follow a run."""
    from tensorflow.python.eager import context

    steps = gathered.steps
    if steps is None or not steps.follows:
        yield
        return

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def call_function(*args: Any, **options: Any) -> Any:
            if gathered.threads.is_main:
                steps.computes()
            return original(*args, **options)

        return call_function

    with patched(context.Context, "call_function", around):
        yield
