"""A coordinator's closures one at a time, each worker in its turn, so that a run is the same each time.

Which worker runs which closure, and in what order updates arrive, is otherwise a matter of time, and no two runs could
be compared. What asynchrony does to a training is not judged for that; but a script that saves or ends while closures
have not been joined is found, as only this order makes them done by then.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from harness.evidence.stand_ins import UNFINISHED, UNJOINED
from harness.recording.patches import patched
from harness.recording.scripts.stand_ins import StandIns

__all__ = ["in_turns", "joins_noted", "returns_noted"]


@contextlib.contextmanager
def in_turns() -> Iterator[None]:
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


@contextlib.contextmanager
def returns_noted(note: Callable[[int], None]) -> Iterator[None]:
    """Within this context `note` hears which worker has come back, before it makes anew what was its own."""
    from tensorflow.python.distribute.coordinator import cluster_coordinator

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def recovered(worker: Any) -> None:
            note(worker.worker_index)
            original(worker)

        return recovered

    with patched(cluster_coordinator.Worker, "_on_worker_recovery", around):
        yield


class _Open:
    """Closures that were scheduled and neither joined nor fetched, and what was saved meanwhile."""

    def __init__(self, stand_ins: StandIns, trains: Callable[[Any], bool], tell: Callable[[str], None]) -> None:
        self._stand_ins = stand_ins
        self._tell = tell
        self._trains = trains
        # By the value that the closure gives, which is kept so that no other one gets its id.
        self._open: dict[int, tuple[Any, Any, str]] = {}
        self._since: list[Any] = []
        self._lacking: tuple[str, ...] = ()

    def scheduled(self, value: Any, function: Any) -> None:
        self._open[id(value)] = value, function, self._stand_ins.line()
        self._since.append(function)

    def joined(self) -> None:
        self._open.clear()

    def fetched(self, value: Any) -> None:
        self._open.pop(id(value), None)

    def read(self) -> None:
        """The script reads a metric, which may lack what is open."""
        if self._open:
            self._tell(
                f"whether what {self._stand_ins.line()} reads before coordinator.join() has all that was scheduled"
            )

    def saved(self) -> None:
        """A save is at its end; what is open may not be in it."""
        self._lacking = self._training()
        self._note(UNJOINED, "it saves", dict.fromkeys(where for _, _, where in self._open.values()))
        self._since.clear()

    def ended(self) -> None:
        """The script is at its end, and what is open will not be done; nor is its last save made again."""
        self._note(UNFINISHED, "the script ends", self._training())
        if not any(map(self._trains, self._since)):
            self._note(UNFINISHED, "it saves for the last time", self._lacking)
        self._note(UNJOINED, "the script ends", dict.fromkeys(where for _, _, where in self._open.values()))
        self._open.clear()

    def _training(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(where for _, function, where in self._open.values() if self._trains(function)))

    def _note(self, what: str, when: str, places: Iterable[str]) -> None:
        for where in places:
            self._stand_ins.note(f"{what} {when}", "those that are done", "unknown", where)


@contextlib.contextmanager
def joins_noted(
    stand_ins: StandIns, trains: Callable[[Any], bool], tell: Callable[[str], None]
) -> Iterator[Callable[[], None]]:
    """Within this context note where closures are scheduled that are neither joined nor fetched before a save.

    Args:
        stand_ins: where it is noted.
        trains: whether a function that was scheduled has made a step.
        tell: gets a sentence about what the script reads before they are.

    Yields:
        To be called at the end of the script, when they have to be too.
    """
    from tensorflow.python.distribute.coordinator import cluster_coordinator, values

    from simulator.agent.saves.saves import listen

    open_ = _Open(stand_ins, trains, tell)

    def schedule_around(original: Callable[..., Any]) -> Callable[..., Any]:
        def schedule(coordinator: Any, fn: Any, *args: Any, **options: Any) -> Any:
            value = original(coordinator, fn, *args, **options)
            open_.scheduled(value, fn)
            return value

        return schedule

    def join_around(original: Callable[..., Any]) -> Callable[..., Any]:
        def join(coordinator: Any) -> Any:
            open_.joined()
            return original(coordinator)

        return join

    def get_around(original: Callable[..., Any]) -> Callable[..., Any]:
        def get(value: Any) -> Any:
            open_.fetched(value)
            return original(value)

        return get

    coordinator = cluster_coordinator.ClusterCoordinator
    listen(lambda path, restores: None if restores else open_.saved())
    with (
        patched(coordinator, "schedule", schedule_around),
        patched(coordinator, "join", join_around),
        patched(coordinator, "done", join_around),
        patched(values.RemoteValueImpl, "get", get_around),
        _reads_noted(open_),
    ):
        yield open_.ended


@contextlib.contextmanager
def _reads_noted(open_: _Open) -> Iterator[None]:
    """Within this context it is noted where the script reads a metric of Keras 3."""
    import tensorflow as tf

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def result(*args: Any, **options: Any) -> Any:
            if tf.executing_eagerly():
                open_.read()
            return original(*args, **options)

        return result

    with contextlib.ExitStack() as stack:
        for kind in _metrics(sys.modules["keras"].metrics) if "keras" in sys.modules else ():
            stack.enter_context(patched(kind, "result", around))
        yield


def _metrics(module: Any) -> Iterator[Any]:
    """The classes by whose own `result` metrics are read."""
    found = (each for each in vars(module).values() if isinstance(each, type) and issubclass(each, module.Metric))
    yield from (kind for kind in dict.fromkeys(found) if "result" in vars(kind))
