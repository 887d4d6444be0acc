"""Changes one number of a variable."""

from __future__ import annotations

import fnmatch
import gc
from typing import Any

from simulator.agent.faults.actions import ActionReport
from simulator.agent.faults.bits import changed


def act(report: ActionReport, pattern: str, element: int, replica: int, bit: int) -> None:
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
    other, effect = changed(value, element, bit)
    parts[replica].assign(other)
    report(variable=found[0].name, replica=replica, **effect)


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
