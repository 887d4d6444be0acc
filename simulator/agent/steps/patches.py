"""Makes TensorFlow and Keras count training steps, in a process that has just imported them."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from typing import Any

import msgspec

from simulator.agent import tracebacks
from simulator.agent.attach import AGENT_VARIABLE, attach, begin
from simulator.agent.steps import gradients
from simulator.agent.steps.counter import CLOSURE, EPOCHS, FIT, FUNCTION, GRADIENT, ON_BATCH, counter
from simulator.topology import Devices
from simulator.wire.spec import TaskSpec

# Reading a number from a GPU waits for everything that was begun there.
_APART_SECONDS = 1.0
_last = [0.0]
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

        connected.computes_on(devices.configure(spec))
    tracebacks.hide_own_frames()
    if spec.hooks:
        from simulator.agent.faults import hooks

        hooks.install(connected, spec.hooks)
    begin(connected)


def count_closures(module: Any) -> None:
    """Each function that a `ClusterCoordinator` has had executed by a worker is a step.

    If gradients are taken in any of them, only those count: the others evaluate. The coordinator has a thread for each
    worker, which takes a function from its queue, has the worker execute it, and comes back for the next one. The one
    that announces a step stops at its gate; the others finish what they have under way, and stop before they announce
    it or have another one executed.
    """
    # Of its subclass, which creates datasets and iterators, none is.
    execute, coordinator = module.Closure.execute_on, getattr(module, "ClusterCoordinator", None)
    known = [False]

    @functools.wraps(execute)
    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        if (own := counter()) is not None:
            own.wait_turn()
        result = execute(self, *args, **kwargs)
        if type(self) is module.Closure and own is not None:
            trained = gradients.trains(getattr(getattr(self, "_concrete_function", None), "graph", None))
            known[0] = known[0] or trained is True
            if trained or not known[0]:
                own.count(CLOSURE)
        return result

    module.Closure.execute_on = counted
    if coordinator is not None:
        _after(coordinator, "__init__", lambda *_, **__: gradients.without_operations())


def count_tf_functions(module: Any) -> None:
    """Each outermost call of a tf.function is as many steps as gradients are taken in it.

    Until one is taken, each call of one of the program's own is a step, unless something more telling counts.
    """
    call = module.Function.__call__

    @functools.wraps(call)
    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not module.context.executing_eagerly():
            return call(self, *args, **kwargs)
        with gradients.outermost() as taken:
            result = call(self, *args, **kwargs)
        if taken is not None and (own := counter()) is not None:
            if taken.steps:
                own.count(GRADIENT, taken.steps, loss_of(result))
            elif _of_program(self):
                own.count(FUNCTION, loss=loss_of(result))
        return result

    module.Function.__call__ = counted
    _remember_origins(module.Function)


def count_runs(module: Any) -> None:
    """Each outermost `Strategy.run` in a program that runs eagerly is as many steps as gradients are taken in it.

    Until one is taken, that of a tf.function of the program's own is a step, as a call of it is.
    """
    from tensorflow.python.eager import context

    kind = module.StrategyBase
    run = kind.run

    @functools.wraps(run)
    def counted(self: Any, fn: Any, *args: Any, **kwargs: Any) -> Any:
        if not context.executing_eagerly():
            return run(self, fn, *args, **kwargs)
        with gradients.outermost() as taken:
            result = run(self, fn, *args, **kwargs)
        if taken is not None and (own := counter()) is not None:
            if taken.steps:
                own.count(GRADIENT, taken.steps, loss_of(result))
            elif hasattr(fn, "get_concrete_function") and _of_program(fn):
                own.count(FUNCTION, loss=loss_of(result))
        return result

    # AutoGraph converts what the program hands over, and must not convert this.
    counted.autograph_info__ = {"conversion": False}  # type: ignore[attr-defined]
    kind.run = counted


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
    _after(kind, "train_on_batch", lambda *_, **__: _count(ON_BATCH))


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


def _batch_ends(callbacks: Any, batch: int, logs: Any = None, *_: Any, **__: Any) -> None:
    # With steps_per_execution=K only each K-th batch is announced, and its number tells of the others. Keras 3 gives
    # the last one the number that it would have if the epoch were a multiple of K.
    in_epoch = (getattr(callbacks, "params", None) or {}).get("steps")
    done = int(batch) + 1 if in_epoch is None else min(int(batch) + 1, in_epoch)
    new = done - getattr(callbacks, "lockstep_batches", 0)
    callbacks.lockstep_batches = done
    if not _is_asynchronous(callbacks):
        _count(FIT, new, loss_of(logs))


def _epoch_ends(callbacks: Any, epoch: int, logs: Any = None, *_: Any, **__: Any) -> None:
    if _is_asynchronous(callbacks):
        _count(EPOCHS, loss=loss_of(logs))


def _prefer(source: str) -> None:
    if (own := counter()) is not None:
        own.prefer(source)


def _count(source: str, steps: int = 1, loss: float | None = None) -> None:
    if (own := counter()) is not None:
        own.count(source, steps, loss)


def loss_of(returned: Any) -> float | None:
    """The number in what a training step returned, or in the logs of `fit`; `None` if it is not plain which one it is.

    Args:
        returned: a scalar tensor or number, a mapping with the key `loss`, or a sequence that begins with one.
    """
    if isinstance(returned, dict):
        returned = returned.get("loss")
    elif isinstance(returned, (list, tuple)):
        returned = returned[0] if returned else None
    if returned is None or isinstance(returned, (bool, int, str, bytes)):
        return None
    if isinstance(returned, float):
        return returned
    try:
        dtype, shape = returned.dtype, returned.shape
        if len(shape) or not getattr(dtype, "is_floating", getattr(dtype, "kind", "") == "f"):
            return None
        if "GPU" in str(getattr(returned, "device", "")):
            now = time.monotonic()
            if now - _last[0] < _APART_SECONDS:
                return None
            _last[0] = now
        return float(returned)
    except Exception:  # noqa: BLE001 - whatever the program returns, it must not notice that somebody looked
        return None
