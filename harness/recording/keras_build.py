"""When `fit` of Keras 3 builds an optimizer: under a strategy before it trains, on one device within the first step.

There its variables would have other names, since Keras names them after the scopes in which they are made. So they are
built before on one device too.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.patches import patched

_TRAINER = "keras.src.backend.tensorflow.trainer"


@contextlib.contextmanager
def optimizers_built_before() -> Iterator[None]:
    """Within this context `fit` builds the optimizer of a model that is built, as it does under any strategy."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def build(trainer: Any, *args: Any, **options: Any) -> Any:
            found = original(trainer, *args, **options)
            optimizer = getattr(trainer, "optimizer", None)
            if optimizer is None or optimizer.built:
                return found
            if all(layer.built for layer in trainer._flatten_layers()):  # noqa: SLF001 - as Keras asks
                optimizer.build(trainer.trainable_variables)
            return found

        return build

    trainer = getattr(sys.modules.get(_TRAINER), "TensorFlowTrainer", None)
    known = hasattr(trainer, "_maybe_symbolic_build")
    with patched(trainer, "_maybe_symbolic_build", around) if known else contextlib.nullcontext():
        yield
