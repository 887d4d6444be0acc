"""What a program gets of its replicas' values by `Strategy.reduce` outside of graphs, such as a loss that it prints."""

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

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def reduce(strategy: Any, *args: Any, **options: Any) -> Any:
            found = original(strategy, *args, **options)
            # TensorFlow calls it too, to read what keeps a part on each replica, such as a metric's count.
            seen = not is_reading() and gathered.steps is not None and gathered.is_training and not gathered.at_once
            if seen and gathered.is_outermost and not gathered.reported:
                gathered.reduces = True
                with gathered.looking("what is reduced outside of calls"):
                    gathered.evaluated(found, f"Strategy.reduce at {places.line()}", True)
            return found

        return reduce

    with patched(distribute_lib.StrategyBase, "reduce", around):
        yield
