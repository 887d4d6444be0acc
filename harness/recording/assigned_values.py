"""Where variables are given values, by whatever method of theirs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.patches import patched

_ASSIGNING = ("assign", "scatter", "batch_scatter", "_strided_slice_assign")
"""What the names of methods of a variable begin with that give it a value; the last one is of `variable[a:b]`."""


@contextlib.contextmanager
def assignments_heard(hear: Callable[[Any], None]) -> Iterator[None]:
    """Hear which variables get values in this context, before they do; also those that a `tf.function` has made."""
    from tensorflow.python.ops import resource_variable_ops

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def assign(variable: Any, *args: Any, **options: Any) -> Any:
            hear(variable)
            return original(variable, *args, **options)

        return assign

    with contextlib.ExitStack() as stack:
        for kind in (resource_variable_ops.ResourceVariable, resource_variable_ops.UninitializedVariable):
            for name in filter(lambda name: name.startswith(_ASSIGNING), dir(kind)):
                stack.enter_context(patched(kind, name, around))
        yield
