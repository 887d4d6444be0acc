"""Without XLA: what `jit_compile` compiles is one operation, inside of which nothing can be seen.

A mistake does not depend on who compiles the function that makes it, so a watched step is carried out without.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.noise.protocol import patched


@contextlib.contextmanager
def uncompiled() -> Iterator[None]:
    """Make functions of TensorFlow in this context as if nobody had asked for XLA."""
    from tensorflow.python.eager.polymorphic_function import polymorphic_function

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def create(function: Any, *args: Any, **options: Any) -> None:
            original(function, *args, **options)
            function._jit_compile = None  # noqa: SLF001 - nothing public changes it

        return create

    with patched(polymorphic_function.Function, "__init__", around):
        yield
