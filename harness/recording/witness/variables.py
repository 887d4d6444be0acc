"""Where variables are made: `tf.Variable` and the older class that tf_keras uses."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from harness.recording.patches import patched
from harness.recording.witness.protocol import WitnessState


@contextlib.contextmanager
def active(gathered: WitnessState) -> Iterator[None]:
    """Note every variable that is made in this context, a distributed one as a whole."""
    from tensorflow.dtensor.python import d_variable
    from tensorflow.python.ops import variable_v1, variables

    with contextlib.ExitStack() as stack:
        for kind in (variables.Variable, variable_v1.VariableV1):
            around = _noting(gathered, kind.__dict__["_variable_call"].__func__)
            stack.enter_context(mock.patch.object(kind, "_variable_call", classmethod(around)))
        stack.enter_context(patched(d_variable.DVariable, "__init__", _laying_out(gathered)))
        yield


def _laying_out(gathered: WitnessState) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A variable of DTensor's is made by its own class only."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(variable: Any, *args: Any, **options: Any) -> None:
            with gathered.registry.making():
                original(variable, *args, **options)
            with gathered.looking("variables"):
                gathered.registry.add(variable)

        return init

    return around


def _noting(gathered: WitnessState, original: Callable[..., Any]) -> Callable[..., Any]:
    def variable_call(kind: Any, *args: Any, **options: Any) -> Any:
        if gathered.registry.is_making:  # the copies that a distributed variable is made of
            return original(kind, *args, **options)
        with gathered.registry.making():
            made = original(kind, *args, **options)
        if made is not None:
            with gathered.looking("variables"):
                gathered.registry.add(made)
        return made

    return variable_call
