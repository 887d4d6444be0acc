"""In a task: gates in the middle of saving, restoring, reducing and joining the cluster.

A save runs in this order (tensorflow/python/checkpoint, 2.21): `Checkpoint._write` calls `TrackableSaver.save`, which
calls `MultiDeviceSaver.save`; that writes each shard's data and index into `PREFIX_temp/` (`_single_shard_save`), then
moves the data files and writes the one index (`merge_v2_checkpoints`), whereupon `_write` has the file `checkpoint`
written. Its beginning and end, and the beginning of a restore, are points of the calls that
`simulator.agent.saves.saves` instruments. The two points in its middle are patched in here: they are in functions that
TensorFlow may trace, so that a gate there is an op of TensorFlow's own tf.function.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from simulator.agent.faults import file_operations
from simulator.agent.saves import saves
from simulator.wire import control

if TYPE_CHECKING:
    from simulator.agent.agent import Agent


def install(agent: Agent, phase: str) -> None:
    """Have this process come to gate `phase:PHASE:N` when it reaches that point for the N-th time; see `hooks`."""
    phase, _, directory = phase.partition(":")
    gate = _Gate(agent, phase)
    if phase == "file_operation":
        file_operations.watch(directory, gate)
    elif phase in _PATCHES:
        _PATCHES[phase](gate)
    else:
        saves.stop_at(phase, gate)


class _Gate:
    """Counts how often the point was reached, says so, and stops there as the parent has asked."""

    def __init__(self, agent: Agent, phase: str) -> None:
        self._agent = agent
        self._phase = phase
        self._numbers = itertools.count(1)

    def __call__(self, *what: str) -> None:
        point = f"phase:{self._phase}:{next(self._numbers)}"
        with contextlib.suppress(OSError):  # the run is over, or knows a later incarnation
            self._agent.send(control.Passed(point=point, what=what, at=time.monotonic()))
        self._agent.gate(point)

    def as_op(self) -> list[Any]:
        """The gate as an op of the graph that is being traced, in this task; eagerly it is passed at once."""
        import tensorflow as tf

        if tf.executing_eagerly():
            self()
            return []
        job, _, index = self._agent.spec.task.partition(":")
        with tf.device(f"/job:{job}/replica:0/task:{index}/device:CPU:0"):

            def passed() -> Any:
                self()
                return True

            return [tf.py_function(passed, [], tf.bool)]


def _wrap_op(owner: Any, name: str, gate: _Gate) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        import tensorflow as tf

        with tf.control_dependencies(gate.as_op()):
            return original(*args, **kwargs)

    setattr(owner, name, wrapped)


def _in_save(gate: _Gate) -> None:
    from tensorflow.python.checkpoint import functional_saver

    _wrap_op(functional_saver, "_single_shard_save", gate)


def _after_data_before_index(gate: _Gate) -> None:
    from tensorflow.python.checkpoint import functional_saver

    # The module's own name for the ops, so that no other module sees the patch.
    functional_saver.gen_io_ops = _Proxy(functional_saver.gen_io_ops)
    _wrap_op(functional_saver.gen_io_ops, "merge_v2_checkpoints", gate)


def _collective(gate: _Gate) -> None:
    from tensorflow.python.distribute import cross_device_utils

    cross_device_utils.collective_ops = _Proxy(cross_device_utils.collective_ops)
    for name in ("all_reduce_v2", "all_gather_v2"):
        _wrap_op(cross_device_utils.collective_ops, name, gate)


def _at_barrier(gate: _Gate) -> None:
    from tensorflow.python.eager import context

    # Where a task of multi-worker training joins the cluster: its server starts and waits for the others.
    for name in ("enable_collective_ops", "wait_at_barrier"):
        _wrap_call(context.Context, name, gate)


def _wrap_call(owner: Any, name: str, gate: _Gate) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        gate()
        return original(*args, **kwargs)

    setattr(owner, name, wrapped)


class _Proxy:
    """A module whose names can be replaced for one user of it."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


_PATCHES: dict[str, Callable[[_Gate], None]] = {
    "in_save": _in_save,
    "after_data_before_index": _after_data_before_index,
    "at_barrier": _at_barrier,
    "collective": _collective,
}
