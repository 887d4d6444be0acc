"""Clear sentences for a model that is compiled, and a variable that is made, outside of the strategy's scope."""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from harness.recording.patches import patched
from harness.recording.scripts.stand_ins import StandIns


@contextlib.contextmanager
def compiled_named(stand_ins: StandIns) -> Iterator[None]:
    """Within this context what mixes strategies fails with the line that compiled a model outside of all scopes.

    Raises:
        RuntimeError: in place of TensorFlow's.
    """
    import tensorflow as tf
    from tensorflow.python.distribute import distribute_lib

    lines: list[str] = []

    def compiling(original: Callable[..., Any]) -> Callable[..., Any]:
        def compile_model(model: Any, *args: Any, **options: Any) -> Any:
            if not tf.distribute.has_strategy():
                lines.append(stand_ins.line())
            return original(model, *args, **options)

        return compile_model

    def mixing(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrong(*args: Any, **options: Any) -> Any:
            if not lines:
                return original(*args, **options)
            raise RuntimeError(
                f"{lines[-1]} compiles a model outside of strategy.scope(), with an optimizer of no strategy; compile "
                "it within the scope in which it was built"
            )

        return wrong

    with contextlib.ExitStack() as stack:
        for package in ("keras", "tf_keras"):
            if package in sys.modules:
                # Where it is defined: elsewhere a model that is loaded takes it for its own, and is not compiled.
                model = sys.modules[package].Model
                owner = next(kind for kind in model.__mro__ if "compile" in vars(kind))
                stack.enter_context(patched(owner, "compile", compiling))
        stack.enter_context(patched(distribute_lib, "_wrong_strategy_scope", mixing))
        yield


# A clear sentence for a variable that was made outside of the strategy's scope and is to be updated within.
#
# TensorFlow's own is an `AssertionError` without a word, from `MirroredExtended._update`.


@contextlib.contextmanager
def unscoped_named(stand_ins: StandIns) -> Iterator[None]:
    """Within this context such an update fails with the lines that made the variable.

    Raises:
        RuntimeError: in place of the assertion.
    """
    import tensorflow as tf
    from tensorflow.python.distribute import mirrored_strategy, values
    from tensorflow.python.ops import variable_v1, variables

    # By identity: a variable compares by its values. One that is gone leaves a line that nobody asks for.
    lines: dict[int, tuple[weakref.ref[Any], str]] = {}

    def noting(original: Callable[..., Any]) -> Callable[..., Any]:
        def variable_call(kind: Any, *args: Any, **options: Any) -> Any:
            made = original(kind, *args, **options)
            if made is not None and not tf.distribute.has_strategy():
                lines[id(made)] = weakref.ref(made), stand_ins.line()
            return made

        return variable_call

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def update(extended: Any, var: Any, *args: Any, **options: Any) -> Any:
            if isinstance(var, values.DistributedVariable):
                return original(extended, var, *args, **options)
            known, where = lines.get(id(var), (None, ""))
            at = f"at {where}, " if known is not None and known() is var else ""
            raise RuntimeError(
                f"the strategy cannot update variable {var.name!r}, which was made {at}outside of strategy.scope(); "
                "build the model and the optimizer within the scope"
            )

        return update

    with contextlib.ExitStack() as stack:
        for kind in (variables.Variable, variable_v1.VariableV1):
            call = classmethod(noting(kind.__dict__["_variable_call"].__func__))
            stack.enter_context(mock.patch.object(kind, "_variable_call", call))
        stack.enter_context(patched(mirrored_strategy.MirroredExtended, "_update", around))
        yield
