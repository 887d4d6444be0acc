"""Changes one number of a gradient while it is computed."""

from __future__ import annotations

import fnmatch
import threading
from dataclasses import dataclass
from typing import Any

from simulator.agent.faults.actions import ActionReport
from simulator.agent.faults.bits import changed


@dataclass
class _Armed:
    """A change that waits for the next gradient of this replica."""

    report: ActionReport
    pattern: str
    element: int
    replica: int
    bit: int


_armed: list[_Armed] = []
_lock = threading.Lock()


def act(report: ActionReport, pattern: str, element: int, replica: int, bit: int) -> None:
    """Change one number of the next gradient that `watch` watches on this replica of the strategy."""
    with _lock:
        _armed.append(_Armed(report, pattern, element, replica, bit))


def watch(pattern: str) -> None:
    """From now on let the gradient of the first matching variable of each tape go through `act`."""
    import tensorflow as tf

    original = tf.GradientTape.gradient

    def gradient(self: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        gradients = original(self, target, sources, *args, **kwargs)
        flat, names = tf.nest.flatten(gradients), [_name(source) for source in tf.nest.flatten(sources)]
        for place, name in enumerate(names):
            if fnmatch.fnmatchcase(name, pattern) and flat[place] is not None:
                flat[place] = watched(flat[place], name, pattern)
                break
        return tf.nest.pack_sequence_as(gradients, flat)

    tf.GradientTape.gradient = gradient


def watched(gradient: Any, name: str, pattern: str) -> Any:
    """The same tensor, of which one number is another where `act` has asked for that with this pattern."""
    import tensorflow as tf

    if isinstance(gradient, tf.IndexedSlices):
        values = watched(gradient.values, name, pattern)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    context = tf.distribute.get_replica_context()
    replica = 0
    if context is not None:
        # Among the replicas of this task, as for a variable.
        replica = context.replica_id_in_sync_group % len(context.strategy.extended.worker_devices)

    def look(value: Any, replica: Any) -> Any:
        with _lock:
            due = next((armed for armed in _armed if armed.pattern == pattern and armed.replica == int(replica)), None)
            if due is None:
                return value
            _armed.remove(due)
        other, effect = changed(value, due.element, due.bit)
        due.report(variable=name, replica=int(replica), **effect)
        return other

    seen = tf.numpy_function(look, [gradient, replica], gradient.dtype)
    seen.set_shape(gradient.shape)
    return seen


def _name(source: Any) -> str:
    # Variables of Keras 3 have the whole name in `path`.
    return str(getattr(source, "path", None) or getattr(source, "name", "?"))
