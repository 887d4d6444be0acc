"""Changes one number of what a replica gets of a reduction."""

from __future__ import annotations

from typing import Any

from simulator.agent.faults import corrupt_gradient
from simulator.agent.faults.actions import ActionReport

_WHAT = "what is reduced"


def act(report: ActionReport, pattern: str, element: int, replica: int, bit: int) -> None:
    """Change one number of the next reduction that this replica of the strategy takes part in."""
    corrupt_gradient.act(report, f"{_WHAT}{pattern}", element, replica, bit)


def watch(pattern: str) -> None:
    """From now on let the first floating tensor of each reduction in a replica go through `act`."""
    import tensorflow as tf
    from tensorflow.python.distribute import distribute_lib

    original = distribute_lib.ReplicaContext.all_reduce

    def all_reduce(self: Any, *args: Any, **options: Any) -> Any:
        found = original(self, *args, **options)
        flat = tf.nest.flatten(found)
        for place, value in enumerate(flat):
            if value.dtype.is_floating:
                flat[place] = corrupt_gradient.watched(value, _WHAT, f"{_WHAT}{pattern}")
                break
        return tf.nest.pack_sequence_as(found, flat)

    distribute_lib.ReplicaContext.all_reduce = all_reduce
