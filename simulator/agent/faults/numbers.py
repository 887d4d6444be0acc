"""In a task: changes one number of a variable, or of a gradient while it is computed."""

from __future__ import annotations

import fnmatch
import gc
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["corrupt_gradient", "corrupt_variable", "watch_gradient"]

Report = Callable[..., None]


@dataclass
class _Armed:
    """A change that waits for the next gradient of this replica."""

    report: Report
    pattern: str
    element: int
    replica: int
    bit: int


_armed: list[_Armed] = []
_lock = threading.Lock()


def corrupt_variable(report: Report, pattern: str, element: int, replica: int, bit: int) -> None:
    """Change one number of the first variable of this process whose name matches, on one replica, now."""
    found = [variable for variable in _variables() if fnmatch.fnmatchcase(variable.name, pattern)]
    if not found:
        report(problem=f"no variable {pattern}; there are {', '.join(v.name for v in _variables()[:8]) or 'none'}")
        return
    parts = getattr(found[0], "values", (found[0],))
    if replica >= len(parts):
        report(problem=f"{found[0].name} has {len(parts)} replicas in this task")
        return
    value = parts[replica].numpy()
    changed, effect = _changed(value, element, bit)
    parts[replica].assign(changed)
    report(variable=found[0].name, replica=replica, **effect)


def corrupt_gradient(report: Report, pattern: str, element: int, replica: int, bit: int) -> None:
    """Change one number of the next gradient that `watch_gradient` watches on this replica of the strategy."""
    with _lock:
        _armed.append(_Armed(report, pattern, element, replica, bit))


def watch_gradient(pattern: str) -> None:
    """From now on let the gradient of the first matching variable of each tape go through `corrupt_gradient`."""
    import tensorflow as tf

    original = tf.GradientTape.gradient

    def gradient(self: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        gradients = original(self, target, sources, *args, **kwargs)
        flat, names = tf.nest.flatten(gradients), [_name(source) for source in tf.nest.flatten(sources)]
        for place, name in enumerate(names):
            if fnmatch.fnmatchcase(name, pattern) and flat[place] is not None:
                flat[place] = _watched(flat[place], name, pattern)
                break
        return tf.nest.pack_sequence_as(gradients, flat)

    tf.GradientTape.gradient = gradient


def _watched(gradient: Any, name: str, pattern: str) -> Any:
    import tensorflow as tf

    if isinstance(gradient, tf.IndexedSlices):
        values = _watched(gradient.values, name, pattern)
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
        changed, effect = _changed(value, due.element, due.bit)
        due.report(variable=name, replica=int(replica), **effect)
        return changed

    seen = tf.numpy_function(look, [gradient, replica], gradient.dtype)
    seen.set_shape(gradient.shape)
    return seen


def _changed(value: Any, element: int, bit: int) -> tuple[Any, dict[str, Any]]:
    """A copy with NaN (`bit` -1), or one bit turned over, at a flat index; and what was there before and after."""
    import numpy as np

    changed = np.array(value)
    flat = changed.reshape(-1)
    place = element % flat.size
    before = flat[place]
    if bit < 0:
        flat[place] = np.nan
    else:
        raw = flat[place : place + 1].view(f"u{flat.dtype.itemsize}")
        raw ^= np.array(1 << bit % (8 * flat.dtype.itemsize), raw.dtype)
    # As text: JSON has no NaN and would round.
    return changed, {"element": place, "before": repr(before.item()), "after": repr(flat[place].item())}


def _name(source: Any) -> str:
    # Variables of Keras 3 have the whole name in `path`.
    return str(getattr(source, "path", None) or getattr(source, "name", "?"))


def _variables() -> list[Any]:
    """The floating-point variables of this process, trainable ones first, by name; components are left out."""
    import tensorflow as tf
    from tensorflow.python.distribute.cross_device_utils import CollectiveReplicaLauncher
    from tensorflow.python.distribute.values import DistributedVariable
    from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

    found = []
    # Variables of TensorFlow's own that keep collectives in order.
    tokens: set[int] = set()
    with tf.init_scope():
        for thing in gc.get_objects():
            # `type`, not `isinstance`: some objects of other libraries answer `__class__` with side effects.
            if issubclass(type(thing), (BaseResourceVariable, DistributedVariable)):
                found.append(thing)
            elif type(thing) is CollectiveReplicaLauncher:
                tokens.add(id(getattr(thing, "_ordering_token", None)))
    parts = {id(part) for variable in found for part in getattr(variable, "values", ())}
    whole = [variable for variable in found if id(variable) not in parts | tokens and _is_floating(variable)]
    return sorted(whole, key=lambda variable: (not variable.trainable, variable.name))


def _is_floating(variable: Any) -> bool:
    # A symbolic variable of a graph has no value to change.
    return bool(variable.dtype.is_floating) and hasattr(getattr(variable, "values", (variable,))[0].handle, "numpy")
