"""What a coordinator schedules: a closure that trains is a step.

Its function is traced in this process, where seams pass, and run in another one, where no Python of this process is.
So what they hand over is written to files by operations (`_files`), and read when the closure is done.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.patches import patched
from harness.recording.witness._known_functions import KnownCall
from harness.recording.witness.protocol import WitnessState

AROUND = True
"""As of `calls`."""


@contextlib.contextmanager
def active(gathered: WitnessState) -> Iterator[None]:
    """Know a closure that trains, within this context; what schedules has to wait until it is done."""
    from tensorflow.python.distribute.coordinator import cluster_coordinator

    numbers = itertools.count()

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def schedule(coordinator: Any, fn: Any, args: Any = None, kwargs: Any = None) -> Any:
            worker = next(numbers) % len(coordinator._cluster.workers)  # noqa: SLF001 - they take turns, see `turns`
            if not gathered.is_outermost:
                return original(coordinator, fn, args, kwargs)
            gathered.worker = worker
            try:
                functions = gathered.functions
                with gathered.call(KnownCall(fn in functions.training, fn in functions.by_hand)):
                    result = original(coordinator, fn, args, kwargs)
                    if gathered.files is not None:
                        with gathered.looking("what closures hand over"):
                            gathered.files.collect()
            finally:
                gathered.worker = None
            gathered.remember(fn)
            return result

        return schedule

    with patched(cluster_coordinator.ClusterCoordinator, "schedule", around):
        yield
