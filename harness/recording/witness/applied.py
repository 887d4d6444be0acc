"""What comes into an optimizer of Keras 3 or tf_keras: each gradient as it is applied, after it was reduced.

Both apply a gradient by `strategy.extended.update(variable, function, args=(gradient, ...))`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.patches import patched
from harness.recording.witness._values import dense, is_small
from harness.recording.witness.protocol import Event, Gathered, replica_number

__all__ = ["active"]


@contextlib.contextmanager
def active(gathered: Gathered) -> Iterator[None]:
    """See what the first local replica applies to variables in this context."""
    from tensorflow.python.distribute import distribute_lib

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def update(extended: Any, variable: Any, function: Any, args: Any = (), *rest: Any, **options: Any) -> Any:
            with gathered.looking("what is applied"):
                _see(gathered, variable, args)
            return original(extended, variable, function, args, *rest, **options)

        return update

    with patched(distribute_lib.StrategyExtendedV2, "update", around):
        yield


def _see(gathered: Gathered, variable: Any, args: Any) -> None:
    replica = replica_number(gathered)
    if replica is not None and replica % gathered.local_replicas:
        return
    entry = gathered.registry.entry(variable)
    given = gathered.strategy.experimental_local_results(args[0])[0] if args else None
    gradient = dense(given)
    if entry is None or gradient is None or gradient.shape != variable.shape or not is_small([gradient]):
        return
    gathered.registry.train(variable)
    site = gathered.site()

    def take(arrays: list[Any]) -> None:
        if gathered.in_full:
            gathered.take(Event("applied", 0, site, (entry,), tuple(arrays)))

    gathered.deliver([gradient], take)
