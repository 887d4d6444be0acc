"""Which variables an optimizer of Keras 3 or tf_keras updates: they are trained, also by gradients made by hand.

Both apply a gradient by `strategy.extended.update(variable, function, args=(gradient, ...))`, after it was reduced; the
gradient itself is seen where it leaves the reduction.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.owners import owner_of
from harness.recording.patches import patched
from harness.recording.witness.protocol import WitnessState


@contextlib.contextmanager
def active(gathered: WitnessState) -> Iterator[None]:
    """Note what is updated in this context."""
    from tensorflow.python.distribute import distribute_lib

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def update(extended: Any, variable: Any, *args: Any, **options: Any) -> Any:
            with gathered.looking("what is updated"):
                if owner_of() == "an optimizer":  # metrics do the same when they are reset
                    gathered.registry.train(variable)
                    gathered.updates()
                    gathered.changes()
            return original(extended, variable, *args, **options)

        return update

    with patched(distribute_lib.StrategyExtendedV2, "update", around):
        yield
