"""Where gradients of variables are taken: that makes a call of a program a training step, and one with a loop several.

A function of TensorFlow takes its gradients while it is traced, and Python sees nothing of later calls. So a graph
remembers what was taken in it. Of a loop inside of a graph, and of a function that another one calls, only the run
knows how often it comes to it: there an operation counts that does nothing else.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from simulator.agent.steps import state
from simulator.agent.steps.counter import GRADIENT, counter

# A replica, and the variables of which a gradient was taken: a step of two networks takes two gradients.
Key = tuple[int, int]
_MARK = "lockstep_taken"
_TRAINS = "lockstep_trains"


class CallGradients:
    """The gradients that were taken in one outermost call."""

    def __init__(self) -> None:
        self._by_key: Counter[Key] = Counter()
        self._lock = threading.Lock()

    def note(self, key: Key) -> None:
        """One more was taken of these variables in this replica."""
        with self._lock:
            self._by_key[key] += 1

    @property
    def steps(self) -> int:
        """How often a replica has taken one of the same variables."""
        with self._lock:
            return max(self._by_key.values(), default=0)


class _Open(threading.local):
    call: CallGradients | None = None


_here = _Open()
# Replicas have threads of their own, and so have operations: what they see belongs to the call that is open.
_open: list[CallGradients] = []
_alone = CallGradients()
_announced = [0]
# Graphs of this process may be run by others, in which no Python can be called.
_remote: list[bool] = []


@contextmanager
def outermost() -> Iterator[CallGradients | None]:
    """Around a call of the program that may be a step; `None` where it is inside of another one."""
    if _here.call is not None or _in_replica_thread():
        yield None
        return
    taken = _here.call = CallGradients()
    _open.append(taken)
    try:
        yield taken
    finally:
        _here.call = None
        _open.remove(taken)


def _in_replica_thread() -> bool:
    # MirroredStrategy.run without a tf.function around it calls the program once in a thread for each replica.
    return "MirroredReplicaThread" in type(threading.current_thread()).__name__


def without_operations() -> None:
    """From now on graphs get no operation that counts: other processes may run them."""
    _remote.append(True)


def trains(graph: Any) -> bool | None:
    """Whether gradients are taken in a graph or in a function that it calls; `None` if there is no graph."""
    return None if graph is None else bool(getattr(graph, _TRAINS, False))


def watch_tapes(module: Any) -> None:
    """Notice each gradient of variables that is taken with a tape."""
    kind = module.GradientTape
    original = kind.gradient

    @functools.wraps(original)
    def gradient(self: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(self, target, sources, *args, **kwargs)
        try:
            _take(sources)
        except Exception as error:  # noqa: BLE001 - the program must not notice
            sys.stderr.write(f"lockstep: a gradient cannot be counted: {type(error).__name__}: {error}\n")
        return found

    kind.gradient = gradient


def note_graphs(module: Any) -> None:
    """Notice which graph a call runs."""
    kind = module.ConcreteFunction
    original = kind._call_flat  # noqa: SLF001 - all calls go through it

    @functools.wraps(original)
    def call_flat(self: Any, *args: Any, **kwargs: Any) -> Any:
        if (taken := _here.call or (_open[-1] if _open else None)) is not None:
            graph = getattr(self, "graph", None)
            if graph is not None and _is_outer(graph) and module.context.executing_eagerly():
                for key in getattr(graph, _MARK, ()):
                    taken.note(key)
        return original(self, *args, **kwargs)

    kind._call_flat = call_flat  # noqa: SLF001 - as above


def _take(sources: Any) -> None:
    from tensorflow.python.util import nest

    variables = [each for each in nest.flatten(sources) if hasattr(each, "assign")]
    own = counter()
    if not variables:
        return
    from tensorflow.python.eager import context
    from tensorflow.python.framework import ops

    if own is not None and not _remote:
        state.begins(own.agent, variables)
    key = (_replica(), hash(tuple(map(id, variables))))
    if context.executing_eagerly():
        taken = _here.call or (_open[-1] if _open else None)
        (taken or _alone).note(key)
        if taken is None and own is not None and _alone.steps > _announced[0]:
            _announced[0] += 1
            own.count(GRADIENT)
        return
    graph = ops.get_default_graph()
    _mark_outer(graph)
    if own is None or not own.prefer(GRADIENT):
        return  # Keras says more, and its graphs stay as they are
    if _is_outer(graph) or _remote or _is_compiled(graph):
        setattr(graph, _MARK, [*getattr(graph, _MARK, ()), key])
    else:
        _count_each_time(key)


def _mark_outer(graph: Any) -> None:
    while graph is not None:
        setattr(graph, _TRAINS, True)
        graph = getattr(graph, "outer_graph", None)


def _is_outer(graph: Any) -> bool:
    """Whether a graph is that of a function which Python calls, and no loop, branch or function inside of another."""
    return not hasattr(getattr(graph, "outer_graph", None), "outer_graph")


def _is_compiled(graph: Any) -> bool:
    from tensorflow.python.ops import control_flow_util

    return bool(control_flow_util.GraphOrParentsInXlaContext(graph))


def _count_each_time(key: Key) -> None:
    import tensorflow as tf

    def came() -> None:
        if _open:
            _open[-1].note(key)

    # It asks for no seed, so that the program draws the same random numbers; no other device has a kernel for it.
    with tf.device("/device:CPU:0"):
        tf.numpy_function(came, [], [], stateful=True)


def _replica() -> int:
    from tensorflow.python.distribute import distribute_lib

    context = distribute_lib.get_replica_context()
    number = getattr(context, "_replica_id_in_sync_group", 0)  # the public property makes an operation of it
    return number if isinstance(number, int) else 0
