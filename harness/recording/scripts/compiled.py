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
                stack.enter_context(patched(sys.modules[package].Model, "compile", compiling))
        stack.enter_context(patched(distribute_lib, "_wrong_strategy_scope", mixing))
        yield
