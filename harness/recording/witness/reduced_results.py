"""What a program gets of its replicas' values by `Strategy.reduce` outside of graphs, such as a loss that it prints.

And what `Strategy.gather` gives it of an evaluation, such as predictions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.patches import patched
from harness.recording.watch.places import Places
from harness.recording.witness.protocol import WitnessState
from harness.recording.work import is_reading


@contextlib.contextmanager
def active(gathered: WitnessState) -> Iterator[None]:
    """See what is reduced in this context, after a step, where no call that may be a step is being made."""
    from tensorflow.python.distribute import distribute_lib

    places = Places()

    def seen(found: Any, value: Any, called: str) -> None:
        is_evaluated = gathered.computed.is_evaluated(value)
        gathered.reduces |= not is_evaluated
        if is_evaluated:
            gathered.noted.unreduced.clear()
        gathered.evaluated(found, f"Strategy.{called} at {places.line()}", trains=not is_evaluated, reduces=True)

    def is_seen() -> bool:
        # TensorFlow calls it too, to read what keeps a part on each replica, such as a metric's count.
        if is_reading() or gathered.steps is None or gathered.at_once or gathered.reported:
            return False
        return gathered.is_training and gathered.is_outermost

    def reducing(original: Callable[..., Any]) -> Callable[..., Any]:
        def reduce(strategy: Any, reduce_op: Any, value: Any, *args: Any, **options: Any) -> Any:
            found = original(strategy, reduce_op, value, *args, **options)
            if is_seen():
                with gathered.looking("what is reduced outside of calls"):
                    seen(found, value, "reduce")
            return found

        return reduce

    def gathering(original: Callable[..., Any]) -> Callable[..., Any]:
        def gather(strategy: Any, value: Any, *args: Any, **options: Any) -> Any:
            found = original(strategy, value, *args, **options)
            if is_seen() and gathered.computed.is_evaluated(value):
                with gathered.looking("what is gathered outside of calls"):
                    seen(found, value, "gather")
            return found

        return gather

    with (
        patched(distribute_lib.StrategyBase, "reduce", reducing),
        patched(distribute_lib.Strategy, "gather", gathering),
    ):
        yield
