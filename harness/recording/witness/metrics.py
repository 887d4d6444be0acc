"""What replicas add to the means that Keras metrics keep: of each update a sum, and by how much it counts.

A mean of either Keras keeps `total` and `count`, and adds to both in `update_state`, first to `total`. Over replicas
both are sums, so that their mean is known from what each replica has added in a step, whenever it is reset or read.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.owners import METRIC
from harness.recording.patches import patched
from harness.recording.watch.places import Places
from harness.recording.witness._replica import replica_number
from harness.recording.witness._step_events import Event
from harness.recording.witness.protocol import WitnessState

EVENT = "mean"
"""The kind of the event: its names are that of the metric and the line, its one array is `[total, count]`."""

_FRAMES_MAX = 16
"""Between a metric's `update_state` and its variable are fewer calls."""


@contextlib.contextmanager
def active(gathered: WitnessState) -> Iterator[None]:
    """See what is added to means in this context."""
    from tensorflow.python.distribute import values
    from tensorflow.python.ops import resource_variable_ops

    places, totals = Places(), threading.local()

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def assign_add(variable: Any, value: Any, *args: Any, **options: Any) -> Any:
            found = original(variable, value, *args, **options)
            with gathered.looking("what is added to means"):
                _see(gathered, places, totals, variable, value)
            return found

        return assign_add

    kinds = [values.SyncOnReadVariable, resource_variable_ops.BaseResourceVariable]
    if (keras := sys.modules.get("keras.src.backend.common.variables")) is not None:
        kinds.append(keras.Variable)
    with contextlib.ExitStack() as stack:
        for kind in kinds:
            stack.enter_context(patched(kind, "assign_add", around))
        yield


def _see(gathered: WitnessState, places: Places, totals: threading.local, variable: Any, value: Any) -> None:
    import tensorflow as tf
    from tensorflow.python.eager import record

    replica = replica_number(gathered)
    if replica is None or gathered.why_unseen() is not None:
        return
    entry = gathered.registry.entry(variable)
    metric = _metric_of(variable) if entry is not None and entry.owner == METRIC else None
    if entry is None or metric is None:
        return
    # What Keras updates by itself in `fit` it logs, and that is compared.
    if not any(places.frames[each].own for each in places.here().frames):
        return
    entry.added_to = True
    if variable is metric.total:
        totals.now = metric, value
        return
    of, total = getattr(totals, "now", (None, None))
    totals.now = None, None
    if of is None or of is not metric:
        return
    names, site = (str(of.name), places.line() or ""), gathered.site()

    def take(arrays: list[Any]) -> None:
        gathered.take(Event(EVENT, replica, site, names, tuple(arrays)))

    with record.stop_recording():
        added = tf.stack([tf.cast(total, tf.float64), tf.cast(value, tf.float64)])
    gathered.deliver([added], take)


def _metric_of(variable: Any) -> Any:
    """The mean whose `total` or `count` this is, and whose `update_state` is being called; None without one."""
    frame, count = sys._getframe(1), 0  # noqa: SLF001 - who calls is all that is to be known
    while frame.f_back is not None and count < _FRAMES_MAX:
        frame, count = frame.f_back, count + 1
        caller = frame.f_locals.get("self")
        parts = vars(caller) if hasattr(caller, "__dict__") else {}
        if "total" in parts and "count" in parts and any(variable is parts[each] for each in ("total", "count")):
            return caller
    return None
