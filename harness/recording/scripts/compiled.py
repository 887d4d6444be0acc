"""A clear sentence for a model that is compiled outside of the strategy's scope; TensorFlow's own is two addresses."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.patches import patched
from harness.recording.scripts.stand_ins import StandIns

__all__ = ["compiled_named"]


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
