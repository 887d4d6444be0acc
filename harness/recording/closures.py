"""What a program asks of a coordinator: closures that it schedules, and whether it joins or fetches them."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from harness.evidence.update_counters import is_counter
from harness.recording.patches import patched


class Listener(Protocol):
    """Hears of them."""

    def scheduled(self, value: Any, function: Any, *, updates: bool) -> None:
        """A closure is scheduled, which will give this value; it may update what is trained, or what counts updates."""

    def joined(self) -> None:
        """All that were scheduled are done, or the program has asked whether they are."""

    def fetched(self, value: Any) -> None:
        """The value of one is there."""

    def taken_back(self) -> None:
        """One is to be run again, since its worker was lost."""


class Closures:
    """Counts them, and knows those that are neither joined nor fetched.

    Attributes:
        count: how many were scheduled that may update what is trained; None where none was.
        retried: how many were taken back from a worker that was lost, to be run again.

    Args:
        line: where the program is.
    """

    def __init__(self, line: Callable[[], str]) -> None:
        self.count: int | None = None
        self.retried = 0
        self._line = line
        # By the value that the closure gives, which is held so that no other one gets its id.
        self._open: dict[int, tuple[Any, str]] = {}

    @property
    def open(self) -> tuple[str, ...]:
        """Where those were scheduled that are neither joined nor fetched, each line once."""
        return tuple(dict.fromkeys(where for _, where in self._open.values()))

    def scheduled(self, value: Any, function: Any, *, updates: bool) -> None:
        """As of `Listener`."""
        if updates:
            self.count = (self.count or 0) + 1
        self._open[id(value)] = value, self._line()

    def joined(self) -> None:
        """As of `Listener`."""
        self._open.clear()

    def fetched(self, value: Any) -> None:
        """As of `Listener`."""
        self._open.pop(id(value), None)

    def taken_back(self) -> None:
        """As of `Listener`."""
        self.retried += 1


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Within this context tell somebody of the closures of every coordinator."""
    from tensorflow.python.distribute.coordinator import cluster_coordinator, values

    updating: dict[int, bool] = {}  # by the value that a closure will give, until it has been scheduled

    def build_around(original: Callable[..., Any]) -> Callable[..., Any]:
        def build(closure: Any) -> Any:
            value = original(closure)
            updating[id(value)] = _updates(getattr(closure, "_concrete_function", None))
            return value

        return build

    def schedule_around(original: Callable[..., Any]) -> Callable[..., Any]:
        def schedule(coordinator: Any, fn: Any, *args: Any, **options: Any) -> Any:
            value = original(coordinator, fn, *args, **options)
            listener.scheduled(value, fn, updates=updating.pop(id(value), True))
            return value

        return schedule

    def join_around(original: Callable[..., Any]) -> Callable[..., Any]:
        def join(coordinator: Any) -> Any:
            listener.joined()
            return original(coordinator)

        return join

    def get_around(original: Callable[..., Any]) -> Callable[..., Any]:
        def get(value: Any) -> Any:
            listener.fetched(value)
            return original(value)

        return get

    def put_back_around(original: Callable[..., Any]) -> Callable[..., Any]:
        def put_back(queue: Any, closure: Any) -> Any:
            listener.taken_back()
            return original(queue, closure)

        return put_back

    coordinator = cluster_coordinator.ClusterCoordinator
    queue = cluster_coordinator._CoordinatedClosureQueue  # noqa: SLF001 - nothing public tells of a retry
    with (
        patched(cluster_coordinator.Closure, "build_output_remote_value", build_around),
        patched(coordinator, "schedule", schedule_around),
        patched(coordinator, "join", join_around),
        patched(coordinator, "done", join_around),
        patched(values.RemoteValueImpl, "get", get_around),
        patched(queue, "put_back", put_back_around),
    ):
        yield


# By the graph of a function, which many closures share.
_KNOWN: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()


def _updates(function: Any) -> bool:
    """Whether a concrete function may update what is trained; of a Python function nobody knows, so that it may."""
    if function is None:
        return True
    if function.graph not in _KNOWN:
        _KNOWN[function.graph] = _may_update(function.graph)
    return _KNOWN[function.graph]


def _may_update(graph: Any) -> bool:
    """Whether the graph of a function writes a variable that is trained or counts updates.

    One that evaluates reads such variables, and writes those of metrics.
    """
    from tensorflow.python.framework import auto_control_deps_utils

    read = set(auto_control_deps_utils.get_read_only_resource_input_indices_graph(graph))
    written = {id(handle) for place, handle in enumerate(graph.inputs) if place not in read}
    by_handle = {id(outside): id(inside) for outside, inside in graph.captures}
    # `graph.variables` raises where one of the function's own is gone, such as a metric's of this call alone.
    variables = (reference() for reference in graph._weak_variables)  # noqa: SLF001
    return any(
        by_handle.get(id(variable.handle)) in written
        for variable in variables
        if variable is not None
        # A variable of integers is `trainable` unless somebody says otherwise, such as tf_keras's count of tests.
        and ((variable.trainable and not variable.dtype.is_integer) or is_counter(variable.name))
    )
