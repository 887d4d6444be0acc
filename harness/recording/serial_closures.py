"""A coordinator's closures one at a time, each worker in its turn, so that a run is the same each time.

Which worker runs which closure, and in what order updates arrive, is otherwise a matter of time, and no two runs could
be compared. What asynchrony does to a training is not judged for that; but a program that reports, saves or ends while
closures have not been joined is found, as only this order makes them done by then.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.patches import patched


@contextlib.contextmanager
def serial_closures() -> Iterator[None]:
    """Within this context `ClusterCoordinator.schedule` returns when what it has scheduled is done."""
    from tensorflow.python.distribute.coordinator import cluster_coordinator

    turns: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()  # by queue, whose turn it is

    def get_around(original: Callable[..., Any]) -> Callable[..., Any]:
        def get(queue: Any, timeout: Any = None, tag: Any = None) -> Any:
            def nothing() -> bool:
                resources = tag is not None and not queue._tagged_queue[tag].empty()  # noqa: SLF001 - see above
                own_turn = tag is None or turns.get(queue, 0) == tag
                return not resources and (queue._queue.empty() or not own_turn)  # noqa: SLF001

            with queue._queue_lock:  # noqa: SLF001
                while queue._should_process_closures and nothing():  # noqa: SLF001
                    if not queue._closures_queued_condition.wait(timeout=timeout):  # noqa: SLF001
                        return None
            return original(queue, timeout, tag)

        return get

    def put_around(original: Callable[..., Any]) -> Callable[..., Any]:
        def put(queue: Any, *args: Any, **options: Any) -> Any:
            original(queue, *args, **options)
            with queue._queue_lock:  # noqa: SLF001
                queue._closures_queued_condition.notify_all()  # noqa: SLF001 - not only one, whose turn it may not be

        return put

    def schedule_around(original: Callable[..., Any]) -> Callable[..., Any]:
        def schedule(cluster: Any, *args: Any, **options: Any) -> Any:
            value = original(cluster, *args, **options)
            cluster.join()
            queue = cluster.closure_queue
            turns[queue] = (turns.get(queue, 0) + 1) % len(cluster.workers)
            return value

        return schedule

    queue = cluster_coordinator._CoordinatedClosureQueue  # noqa: SLF001 - nothing public hands closures out
    with (
        patched(queue, "get", get_around),
        patched(queue, "put", put_around),
        patched(cluster_coordinator.Cluster, "schedule", schedule_around),
    ):
        yield
