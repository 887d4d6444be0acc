"""Which line of a program made a layer or an optimizer: what these do has no line of the program's own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

_KINDS = (
    ("keras.src.layers.layer", "Layer"),
    ("keras.src.optimizers.base_optimizer", "BaseOptimizer"),
    ("tf_keras.src.engine.base_layer", "Layer"),
    ("tf_keras.src.optimizers.optimizer", "_BaseOptimizer"),
)


class Makers:
    """Hears of every layer and optimizer that is made, but for layers that the program calls by code of its own.

    Such code has lines itself, which say more than the one that made the layer.

    Args:
        caller: tells the frame of the program's own that makes one.
        is_own: tells whether a file is the program's own.
    """

    def __init__(self, caller: Callable[[], int | None], is_own: Callable[[str], bool]) -> None:
        self._caller = caller
        self._is_own = is_own
        self._made: list[tuple[Any, int]] = []

    def listen(self) -> None:
        """Hear of them from now on in this process, also of those of a Keras that is imported later."""
        import wrapt

        for module, name in _KINDS:
            wrapt.register_post_import_hook(functools.partial(self._patch, name), module)

    def _patch(self, name: str, module: Any) -> None:
        import wrapt

        def create(original: Callable[..., None], made: Any, args: Any, options: Any) -> None:
            original(*args, **options)
            if not self._is_called_by_own_code(made) and (frame := self._caller()) is not None:
                self._made.append((made, frame))

        # Keras reads the signature of what makes a layer.
        wrapt.wrap_function_wrapper(module, f"{name}.__init__", create)

    def _is_called_by_own_code(self, made: Any) -> bool:
        code = getattr(inspect.unwrap(getattr(type(made), "call", None) or type), "__code__", None)
        return code is not None and self._is_own(code.co_filename)

    @property
    def made(self) -> dict[str, int]:
        """By name, of several by the name of one the first."""
        found: dict[str, int] = {}
        for made, frame in self._made:
            if isinstance(name := getattr(made, "name", None), str):
                found.setdefault(name, frame)
        return found
