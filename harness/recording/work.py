"""Counts, inside a client, which replicas do work and what the workers combine; changes no number and no graph."""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import sysconfig
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from harness.evidence.counters import Work
from harness.evidence.trace import OUTSIDE
from harness.recording.flows import Flows

_route = threading.local()
_READ = "uncounted"
"""The route of what is put together to read a variable."""
_AUTOGRAPH = "/tensorflow/python/autograph/"
_OTHERS = (*(sysconfig.get_path(name) for name in ("purelib", "platlib")), str(Path(__file__).parents[1]))
_DEVICE = re.compile(r"\b([a-z]+):(\d+)$", re.IGNORECASE)


@dataclass
class WorkCounts:
    """The counts so far; threads of several replicas add to them, under the interpreter's lock."""

    entered: Counter[int] = field(default_factory=Counter)
    gradients: Counter[int] = field(default_factory=Counter)
    combined: Counter[int] = field(default_factory=Counter)
    returned: Counter[int] = field(default_factory=Counter)
    reduced: int = 0
    handed: Counter[int] = field(default_factory=Counter)
    contributed: Counter[int] = field(default_factory=Counter)  # by launcher, of which each replica has its own
    flows: Flows = field(default_factory=Flows)
    strategies: list[Any] = field(default_factory=list)
    route_of_helpers: str | None = None
    placed: dict[str, None] = field(default_factory=dict)

    def counted(self, recorded: Sequence[tuple[str, Sequence[Any]]]) -> Work:
        """As it is kept in a trace.

        Args:
            recorded: the variables that the program has recorded, each with its name, as one object or as its shards.
        """
        return Work(
            entered=dict(self.entered),
            gradients=dict(self.gradients),
            combined=dict(self.combined),
            returned=dict(self.returned),
            reduced=self.reduced,
            handed=dict(self.handed),
            contributed=self.contributed.total(),
            changed=self.flows.changed(recorded),
            placed=tuple(self.placed),
        )


@contextlib.contextmanager
def _on(route: str) -> Iterator[None]:
    before = getattr(_route, "name", None)
    _route.name = before or route
    try:
        yield
    finally:
        _route.name = before


def is_reading() -> bool:
    """Whether this thread puts together what a variable keeps on each replica, to read it."""
    return getattr(_route, "name", None) == _READ


@contextlib.contextmanager
def working(strategy: Any) -> Iterator[WorkCounts]:
    """Count what the program does with this strategy, and others that are added, within the context."""
    import tensorflow as tf
    from tensorflow.python.distribute import cross_device_ops, cross_device_utils, distribute_lib, values

    seen = WorkCounts(strategies=[strategy])
    launcher = cross_device_utils.CollectiveReplicaLauncher
    with contextlib.ExitStack() as stack:

        def patch(owner: Any, name: str, around: Callable[..., Any]) -> None:
            original = getattr(owner, name)
            stack.enter_context(mock.patch.object(owner, name, functools.wraps(original)(around(original))))

        patch(distribute_lib.ReplicaContextBase, "__enter__", functools.partial(_entering, seen))
        patch(tf, "device", functools.partial(_placing, seen))
        patch(tf.GradientTape, "gradient", functools.partial(_differentiating, seen))
        # `reduce` and `gather` hand a value to the program, which may only report it.
        patch(distribute_lib.StrategyBase, "reduce", functools.partial(_routed, "returned"))
        patch(distribute_lib.Strategy, "gather", functools.partial(_routed, "returned"))
        # Reading a metric sums it over all workers, and nothing is trained by that.
        patch(values.SyncOnReadVariable, "_get_cross_replica", functools.partial(_routed, _READ))
        for name in ("reduce", "batch_reduce"):
            patch(cross_device_ops.CrossDeviceOps, name, functools.partial(_reducing, seen))
        patch(cross_device_ops.CollectiveAllReduce, "_all_reduce_per_replica_values", functools.partial(_helped, seen))
        for name in ("all_reduce", "_all_gather"):
            patch(launcher, name, functools.partial(_combining, seen, launcher._next_instance_key))  # noqa: SLF001
        yield seen


def _entering(seen: WorkCounts, original: Callable[..., Any]) -> Callable[..., Any]:
    def entered(context: Any) -> Any:
        if context.strategy in seen.strategies and (replica := _number(context)) is not None:
            seen.entered[replica] += 1
        return original(context)

    return entered


def _placing(seen: WorkCounts, original: Callable[..., Any]) -> Callable[..., Any]:
    import tensorflow as tf

    def device(name: Any) -> Any:
        frame: Any = sys._getframe(1)  # noqa: SLF001 - who calls is all that is to be known
        while frame is not None and _AUTOGRAPH in frame.f_code.co_filename:
            frame = frame.f_back
        by_program = frame is not None and not frame.f_code.co_filename.startswith(_OTHERS)
        if by_program and isinstance(name, str) and (named := _DEVICE.search(name)):
            seen.placed[f"{named[1].upper()}:{named[2]}"] = None
        return original(name)

    as_it_is: Callable[..., Any] = tf.autograph.experimental.do_not_convert(device)
    return as_it_is


def _number(context: Any) -> int | None:
    """The replica's number over all workers; None where it is a tensor, as on a TPU."""
    number = context._replica_id_in_sync_group  # noqa: SLF001 - the public property makes an op of it
    return number if isinstance(number, int) else None


def _differentiating(seen: WorkCounts, original: Callable[..., Any]) -> Callable[..., Any]:
    import tensorflow as tf

    def gradient(tape: Any, *args: Any, **options: Any) -> Any:
        context = tf.distribute.get_replica_context()
        inside = context is not None and context.strategy in seen.strategies
        if (replica := _number(context) if inside else OUTSIDE) is not None:
            seen.gradients[replica] += 1
        return original(tape, *args, **options)

    as_it_is: Callable[..., Any] = tf.autograph.experimental.do_not_convert(gradient)
    return as_it_is


def _reducing(seen: WorkCounts, original: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(*args: Any, **options: Any) -> Any:
        seen.reduced += getattr(_route, "name", None) is None
        return original(*args, **options)

    return reduce


def _routed(route: str, original: Callable[..., Any]) -> Callable[..., Any]:
    import tensorflow as tf

    def call(*args: Any, **options: Any) -> Any:
        with _on(route):
            return original(*args, **options)

    as_it_is: Callable[..., Any] = tf.autograph.experimental.do_not_convert(call)
    return as_it_is


def _helped(seen: WorkCounts, original: Callable[..., Any]) -> Callable[..., Any]:
    """What is eager is combined by helper threads, one a replica, while the caller waits."""
    import tensorflow as tf

    def call(*args: Any, **options: Any) -> Any:
        before, seen.route_of_helpers = seen.route_of_helpers, getattr(_route, "name", None)
        try:
            return original(*args, **options)
        finally:
            seen.route_of_helpers = before

    as_it_is: Callable[..., Any] = tf.autograph.experimental.do_not_convert(call)
    return as_it_is


def _combining(seen: WorkCounts, next_key: Callable[[Any], Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """Count each time that this collective is carried out.

    TensorFlow asks for a new key each time: at once if it runs eagerly, and each time that a function is called which
    the collective has become a part of (`CollectiveReplicaLauncher._next_instance_key`). So no op is needed for it.
    """
    import tensorflow as tf

    def combine(launcher: Any, value: Any, *args: Any, **options: Any) -> Any:
        route = getattr(_route, "name", None) or seen.route_of_helpers
        # Whole numbers, such as ids that are gathered for a log, train nothing.
        if route == _READ or not (value.dtype.is_floating or value.dtype.is_complex):
            return original(launcher, value, *args, **options)
        counts = seen.returned if route == "returned" else seen.combined
        elements = tf.TensorShape(value.shape).num_elements() or 0
        if tf.executing_eagerly():
            if route == "returned":
                seen.handed[elements] += 1
            number = id(launcher)
            seen.contributed[number] = zlib.crc32(value.numpy().tobytes(), seen.contributed[number])

        def key() -> Any:
            if tf.executing_eagerly():
                counts[elements] += 1
            return next_key(launcher)

        with mock.patch.object(launcher, "_next_instance_key", key):
            result = original(launcher, value, *args, **options)
        seen.flows.combined(result)
        return result

    return combine
