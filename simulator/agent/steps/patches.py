"""Makes TensorFlow and Keras count training steps, in a process that has just imported them."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any

import msgspec

from simulator.agent.attach import AGENT_VARIABLE, attach, begin
from simulator.agent.steps.counter import CLOSURE, EPOCHS, FIT, FUNCTION, ON_BATCH, counter
from simulator.topology import Devices
from simulator.wire.spec import TaskSpec

__all__ = ["count_closures", "count_fit", "count_tf_functions", "count_train_on_batch", "on_tensorflow"]

# Functions of these packages are not the program's: `fit`, `evaluate` and optimizers call tf.functions of their own.
_LIBRARIES = ("keras", "tensorflow", "tf_keras")


def on_tensorflow(module: Any) -> None:
    """Connect to the run, create the task's logical devices, prepare planned faults, and stop at gate `step:0`."""
    if (connected := attach()) is None:
        return
    spec = msgspec.json.decode(os.environ[AGENT_VARIABLE], type=TaskSpec)
    wanted = Devices.parse(spec.devices)
    if str(wanted) != "cpu:1":
        from simulator.agent import devices

        devices.configure(wanted, spec.rank, spec.threads)
    if spec.hooks:
        from simulator.agent.faults import hooks

        hooks.install(connected, spec.hooks)
    begin(connected)


def count_closures(module: Any) -> None:
    """Each function that a `ClusterCoordinator` has had executed by a worker is a step.

    The coordinator has a thread for each worker, which takes a function from its queue, has the worker execute it, and
    comes back for the next one. The one that announces a step stops at its gate; the others finish what they have under
    way, and stop before they announce it or have another one executed.
    """
    # Of its subclass, which creates datasets and iterators, none is.
    execute = module.Closure.execute_on

    @functools.wraps(execute)
    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        if (own := counter()) is not None:
            own.wait_turn()
        result = execute(self, *args, **kwargs)
        if type(self) is module.Closure and own is not None:
            own.count(CLOSURE)
        return result

    module.Closure.execute_on = counted


def count_tf_functions(module: Any) -> None:
    """Each outermost call of a tf.function of the program is a step, unless something more telling counts."""
    inside = threading.local()
    call = module.Function.__call__

    @functools.wraps(call)
    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(inside, "a_call", False) or not module.context.executing_eagerly():
            return call(self, *args, **kwargs)
        inside.a_call = True
        try:
            result = call(self, *args, **kwargs)
        finally:
            inside.a_call = False
        if _of_program(self) and not _in_replica_thread() and (own := counter()) is not None:
            own.count(FUNCTION)
        return result

    module.Function.__call__ = counted
    _remember_origins(module.Function)


def _remember_origins(kind: Any) -> None:
    """`strategy.run(tf_function)` calls a clone of it with a Python function of TensorFlow's inside."""
    clone = getattr(kind, "_clone", None)
    if clone is None:
        return

    @functools.wraps(clone)
    def remembered(self: Any, *args: Any, **kwargs: Any) -> Any:
        copy = clone(self, *args, **kwargs)
        copy.lockstep_origin = getattr(self, "lockstep_origin", self)
        return copy

    kind._clone = remembered  # noqa: SLF001 - the one place through which all copies go


def _of_program(function: Any) -> bool:
    origin = getattr(function, "lockstep_origin", function)
    package = (getattr(origin.python_function, "__module__", None) or "").partition(".")[0]
    return package not in _LIBRARIES


def _in_replica_thread() -> bool:
    # MirroredStrategy.run without a tf.function around it calls the program once in a thread for each replica.
    return "MirroredReplicaThread" in type(threading.current_thread()).__name__


def count_fit(module: Any) -> None:
    """Each batch that `fit` announces to its callbacks is a step; under parameter servers each epoch.

    The list of callbacks is asked, rather than a callback added to it: one with batch hooks makes `fit` fetch the logs
    of each step, and is refused under ParameterServerStrategy.
    """
    kind = module.CallbackList
    _after(kind, "on_train_begin", lambda callbacks, *_: _prefer(EPOCHS if _is_asynchronous(callbacks) else FIT))
    _after(kind, "on_epoch_begin", _epoch_begins)
    _after(kind, "on_train_batch_end", _batch_ends)
    _after(kind, "on_epoch_end", _epoch_ends)


def count_train_on_batch(module: Any) -> None:
    """Each `Model.train_on_batch` is a step."""
    kind = module.TensorFlowTrainer if hasattr(module, "TensorFlowTrainer") else module.Model
    _after(kind, "train_on_batch", lambda *_: _count(ON_BATCH))


def _after(kind: type, name: str, then: Callable[..., None]) -> None:
    """Have method `name` call `then` with its own arguments when it returns."""
    method = getattr(kind, name)

    @functools.wraps(method)
    def both(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        then(self, *args, **kwargs)
        return result

    setattr(kind, name, both)


def _is_asynchronous(callbacks: Any) -> bool:
    strategy = getattr(getattr(callbacks, "model", None), "distribute_strategy", None)
    return bool(getattr(strategy, "_should_use_with_coordinator", False))


def _epoch_begins(callbacks: Any, *_: Any, **__: Any) -> None:
    callbacks.lockstep_batches = 0


def _batch_ends(callbacks: Any, batch: int, *_: Any, **__: Any) -> None:
    # With steps_per_execution=K only each K-th batch is announced, and its number tells of the others. Keras 3 gives
    # the last one the number that it would have if the epoch were a multiple of K.
    in_epoch = (getattr(callbacks, "params", None) or {}).get("steps")
    done = int(batch) + 1 if in_epoch is None else min(int(batch) + 1, in_epoch)
    new = done - getattr(callbacks, "lockstep_batches", 0)
    callbacks.lockstep_batches = done
    if not _is_asynchronous(callbacks):
        _count(FIT, new)


def _epoch_ends(callbacks: Any, *_: Any, **__: Any) -> None:
    if _is_asynchronous(callbacks):
        _count(EPOCHS)


def _prefer(source: str) -> None:
    if (own := counter()) is not None:
        own.prefer(source)


def _count(source: str, steps: int = 1) -> None:
    if (own := counter()) is not None:
        own.count(source, steps)
