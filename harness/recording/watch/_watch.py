"""Watches the operations of one step, by the callbacks that TensorFlow offers its own debugger.

Python makes each operation once: in a graph when a function is traced, or each time where operations are carried out
at once. There the place is noted. What an operation of a graph gives is known when the graph runs, from a function
beside it that is called with its results. Nothing that the program computes with is changed, no random number is drawn,
and the seeds of random operations do not depend on how many operations there are (tensorflow/python/framework/
random_seed.py counts those that ask for one).
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from harness.evidence.sketch import sketch
from harness.evidence.trace import Array
from harness.evidence.watched_step import (
    BATCHES,
    PYTHON,
    Op,
    TakenApart,
    TensorValue,
    WatchedStep,
    digest_of,
    form_of,
    write_watched,
)
from harness.recording.closure_files import Files
from harness.recording.noise.protocol import patched
from harness.recording.watch.compiled import uncompiled
from harness.recording.watch.looks import Looks
from harness.recording.watch.makers import Makers
from harness.recording.watch.places import BY_BATCHES, BY_PYTHON, CodePlace, Places, zone
from harness.recording.watch.variables import Variables

if TYPE_CHECKING:
    import numpy as np


_PYTHON_TYPES = {"PyFunc", "PyFuncStateless", "EagerPyFunc"}
_HIDDEN_TYPES = {"NoOp", *_PYTHON_TYPES, "Assert", "CheckNumerics"}


class WatchDone(BaseException):
    """Ends a program whose watched step is over. Nothing that a program catches, as long as it catches no exit."""


class WatchOrder(msgspec.Struct, frozen=True):
    """What a client has to watch: a step from 1, or what comes after so many steps, until the end; and where it goes.

    Attributes:
        step: the step.
        path: a folder.
        last: whether the step ends with the program and not with a report.
        looks: how many operations of graphs are looked at, the first ones; None for all. The others are noted only.
        only: instead of these, by task the numbers of those that are looked at.
        reports: whether the program reports its steps. Else they are those that the harness sees.
    """

    step: int
    path: str
    last: bool = False
    looks: int | None = None
    only: dict[str, tuple[int, ...]] | None = None
    reports: bool = False


class Watch:
    """Watches the operations of one client.

    Args:
        watching: what is asked for.
        task: whose operations these are.
        replicas: of the strategy.
        files: how values leave the graphs of a coordinator's closures.
    """

    def __init__(self, watching: WatchOrder, task: str, replicas: int, files: Files | None = None) -> None:
        self._watching = watching
        self._task = task
        self._replicas = replicas
        self._places = Places()
        self._values = _Values()
        self._looks = Looks(self._seen, files)
        self._variables = Variables(self._places.caller)
        self._makers = Makers(self._places.caller, self._places.is_own)
        self._ops: list[Op] = []
        self._by_batches: set[int] = set()
        self._python: dict[int, tuple[CodePlace, Sequence[Any]]] = {}
        self._tensors: dict[int, int] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.RLock()
        self._handles: dict[int, str] = {}
        self._targets: list[int] = []
        self._taken_apart: list[TakenApart] = []
        self._graphs: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._graph_numbers = itertools.count(1)
        self._looked_into: set[int] = set()
        self._looks_made = 0
        self._only = None if watching.only is None else frozenset(watching.only.get(task, ()))
        self._blind: dict[str, None] = {}
        self._steps = 0
        self._done = False
        self._makers.listen()

    @property
    def reports(self) -> bool:
        """As of the order."""
        return self._watching.reports

    @property
    def _on(self) -> bool:
        return self._steps + 1 == self._watching.step and not self._done

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Watch what the program does in this context; ends it quietly when its step is over."""
        import tensorflow as tf
        from tensorflow.python.data.ops import multi_device_iterator_ops, structured_function
        from tensorflow.python.distribute import cross_device_ops, distribute_lib
        from tensorflow.python.framework import auto_control_deps, op_callbacks

        def aside(original: Callable[..., Any]) -> Callable[..., Any]:
            """A function of TensorFlow within which nothing is watched."""

            def create(*args: Any, **options: Any) -> Any:
                with self._unseen():
                    return original(*args, **options)

            return create

        with contextlib.ExitStack() as stack:
            stack.enter_context(uncompiled())
            stack.enter_context(self._variables.active())
            stack.enter_context(self._looks.active(self._unseen))
            for owner, name in (
                # What datasets do with their elements happens in threads of their own, and before the step.
                (structured_function.StructuredFunctionWrapper, "__init__"),
                (multi_device_iterator_ops.OwnedMultiDeviceIterator, "__init__"),
                # A copy of each result of a function, which waits for all that the function does.
                (auto_control_deps.AutomaticControlDependencies, "mark_as_return"),
            ):
                stack.enter_context(patched(owner, name, aside))
            stack.enter_context(patched(tf.GradientTape, "gradient", self._differentiating))
            stack.enter_context(patched(distribute_lib.StrategyBase, "experimental_local_results", self._taking_apart))
            stack.enter_context(patched(cross_device_ops.CollectiveAllReduce, "_all_reduce", self._in_any_thread))
            op_callbacks.add_op_callback(self._made)
            stack.callback(op_callbacks.remove_op_callback, self._made)
            try:
                yield
            except WatchDone:
                pass
            finally:
                if not self._done:
                    self._looks.collect()
                    self._write()

    @contextlib.contextmanager
    def _unseen(self) -> Iterator[None]:
        from tensorflow.python.eager import context

        state = context.context()
        before, state.invoking_op_callbacks = state.invoking_op_callbacks, True
        try:
            yield
        finally:
            state.invoking_op_callbacks = before

    def silent(self) -> contextlib.AbstractContextManager[None]:
        """What the harness itself does in this context is not the program's."""
        return self._unseen()

    def after_step(self, step: int) -> None:
        """Hear that a step has been reported, and end the program if it was the watched one.

        Raises:
            WatchDone: there is nothing more to see.
        """
        self._looks.collect()
        if step == self._watching.step and not self._watching.last:
            self._write()
            raise WatchDone
        self._steps = step

    def _write(self) -> None:
        self._done = True
        lost = self._values.lost
        if lost:
            self._blind[f"{len(lost)} values: there was no room for them"] = None
        write_watched(
            Path(self._watching.path) / f"{self._task.replace(':', '-')}.watched",
            WatchedStep(
                task=self._task,
                step=self._watching.step,
                replicas=self._replicas,
                frames=self._places.frames,
                ops=tuple(
                    msgspec.structs.replace(op, seen=False) if lost.intersection(op.outputs) else op for op in self._ops
                ),
                values=tuple(taken for taken in self._values.taken if taken.tensor not in lost),
                variables=self._variables.kinds(),
                made=self._makers.made,
                targets=tuple(self._targets),
                taken_apart=tuple(self._taken_apart),
                blind=tuple(self._blind),
            ),
        )

    def _differentiating(self, original: Callable[..., Any]) -> Callable[..., Any]:
        import tensorflow as tf

        def gradient(tape: Any, target: Any, *args: Any, **options: Any) -> Any:
            for each in tf.nest.flatten(target):
                self._targets.append(self._tensors.get(_id(each), 0))
            return original(tape, target, *args, **options)

        as_it_is: Callable[..., Any] = tf.autograph.experimental.do_not_convert(gradient)
        return as_it_is

    def _taking_apart(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def take_apart(strategy: Any, value: Any) -> Any:
            parts = original(strategy, value)
            if not _is_silent() and (caller := self._places.caller()) is not None:
                self._taken_apart.append(TakenApart(caller, tuple(self._tensors.get(_id(each), 0) for each in parts)))
            return parts

        return take_apart

    def _in_any_thread(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Where operations are carried out at once, each replica's part of a reduction has a thread of its own."""
        from tensorflow.python.eager import context

        def collective(*args: Any, **options: Any) -> Any:
            state = context.context()._thread_local_data  # noqa: SLF001 - callbacks are each thread's own
            before, state.op_callbacks = state.op_callbacks, [self._made]
            try:
                return original(*args, **options)
            finally:
                state.op_callbacks = before

        return collective

    def _made(
        self, kind: str | bytes, inputs: Any, attrs: Any, outputs: Any, op_name: str | None = None, graph: Any = None
    ) -> None:
        """Note an operation that Python has just made, and have its results seen; called by TensorFlow."""
        name = kind.decode() if isinstance(kind, bytes) else kind
        if name in _PYTHON_TYPES and graph is not None:
            called = self._places.here(), tuple(inputs)
            self._python.update((_id(each), called) for each in outputs)
        if name in _HIDDEN_TYPES or self._done:
            return
        if graph is None and (not self._on or _is_silent()):  # carried out already: in another step, or by the harness
            return
        with self._unseen():
            if graph is not None and not hasattr(graph, "captures"):
                return  # a graph of TensorFlow 1, which is run by sessions
            with self._lock:
                self._note(name, tuple(inputs), tuple(outputs), op_name or "", graph)

    def _note(self, kind: str, inputs: Sequence[Any], outputs: Sequence[Any], name: str, graph: Any) -> None:
        place = self._places.here()
        if self._is_by_batches(kind, inputs, place):
            self._by_batches.update(map(_id, outputs))
            return
        if place.ours:
            return
        where, index = zone()
        variable = ""
        for given in inputs:
            if _is_resource(given):
                variable = variable or self._variable(given)
        # What comes from where nothing is watched, such as a function that was called.
        arrived = {_id(each): each for each in inputs if _is_shown(each) and _id(each) not in self._tensors}
        for number, each in arrived.items():
            python = self._python_of(each, graph)
            made, given = python or (place, ())
            self._add(
                BATCHES if number in self._by_batches else "Input" if python is None else PYTHON,
                "" if graph is None else each.name,
                where,
                index,
                made,
                given,
                (each,),
                "",
                graph,
            )
        self._add(kind, name, where, index, place, inputs, outputs, variable, graph)

    def _python_of(self, tensor: Any, graph: Any) -> tuple[CodePlace, Sequence[Any]] | None:
        """Where the program's own Python is called that gives a tensor, and with what; None of any other tensor.

        Who follows a run has the program use what operations of its own give, made from that of Python.
        """
        while graph is not None and BY_PYTHON in tensor.op.name:
            tensor = tensor.op.inputs[tensor.value_index]
        return self._python.get(_id(tensor))

    def _is_by_batches(self, kind: str, inputs: Sequence[Any], place: CodePlace) -> bool:
        """Whether one replica does this for each batch, and the run once; so it is with a sum of gradients of these."""
        adds = kind == "AddN" and place.differentiates and all(_id(each) in self._by_batches for each in inputs)
        return adds or BY_BATCHES in _scope()

    def _add(
        self,
        kind: str,
        name: str,
        where: str,
        index: int,
        place: CodePlace,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        variable: str,
        graph: Any,
    ) -> None:
        shown = [each for each in outputs if _is_shown(each)]
        for each in shown:
            self._tensors[_id(each)] = next(self._numbers)
        numbers = tuple(self._tensors[_id(each)] for each in shown)
        given = tuple(self._tensors.get(_id(each), 0) for each in inputs)
        within = 0 if graph is None else self._number_of(graph)
        # What is added to a graph before or after it is made, such as its arguments, is not always carried out with it.
        bounded = graph is not None and graph.experimental_acd_manager is not None
        seen = not shown or not bounded or self._is_wanted(len(self._ops) + 1, within)
        self._ops.append(
            Op(
                number=len(self._ops) + 1,
                type=kind,
                name=name,
                zone=where,
                index=index,
                frames=place.frames,
                caller=place.caller,
                inputs=given,
                outputs=numbers,
                variable=variable,
                differentiates=place.differentiates,
                graph=within,
                seen=seen,
                forms=tuple(map(_form, shown)),
            )
        )
        if not shown or not seen:
            return
        if graph is None:
            for number, each in zip(numbers, shown, strict=True):
                self._values.take(number, each.numpy())
        else:
            self._looks.at(graph, numbers, shown)

    def _number_of(self, graph: Any) -> int:
        if graph not in self._graphs:
            self._graphs[graph] = next(self._graph_numbers)
        return self._graphs[graph]

    def _is_wanted(self, number: int, graph: int) -> bool:
        """Whether an operation of a graph is looked at; one of each at least, to know whether the graph was run."""
        if graph not in self._looked_into:
            self._looked_into.add(graph)
            return True
        if self._only is not None:
            return number in self._only
        if self._watching.looks is None:
            return True
        self._looks_made += 1
        return self._looks_made <= self._watching.looks

    def _seen(self, numbers: Sequence[int], values: Sequence[Any]) -> None:
        if self._on:
            for number, value in zip(numbers, values, strict=True):
                self._values.take(number, value)

    def _variable(self, handle: Any) -> str:
        key = _id(handle)
        if key not in self._handles and (name := self._variables.name(handle)) is not None:
            self._handles[key] = name  # not before it has one: its first value is assigned while it is made
        return self._handles.get(key, "")


def _is_silent() -> bool:
    """Whether this thread is where nothing is watched: of what is carried out at once TensorFlow does not ask that."""
    from tensorflow.python.eager import context

    return bool(context.context().invoking_op_callbacks)


def _scope() -> str:
    """The name scope in which this thread makes operations."""
    import tensorflow as tf

    return str(tf.get_current_name_scope())


def _is_resource(tensor: Any) -> bool:
    return getattr(tensor, "dtype", None) is not None and tensor.dtype.name == "resource"


def _is_shown(tensor: Any) -> bool:
    dtype = getattr(tensor, "dtype", None)
    return dtype is not None and (dtype.is_floating or dtype.is_complex or dtype.is_integer or dtype.is_bool)


def _form(tensor: Any) -> str:
    known = tensor.shape.rank is not None and tensor.shape.is_fully_defined()
    return form_of(tensor.dtype.name, tuple(tensor.shape.as_list())) if known else ""


def _id(tensor: Any) -> int:
    """What a tensor is known by in this process, one of a graph as well as another."""
    return getattr(tensor, "_id", 0)


# Keeps the values of tensors, large ones as sketches, within a budget.


_FULL_BYTES = 1 << 16
"""A value of no more bytes is kept as it is."""

BUDGET_BYTES = 1 << 27
"""What all values of one step in one process may take; what comes after is not kept."""


class _Values:
    """What tensors held, in the order in which it was seen; several threads add to it.

    Attributes:
        taken: the values.
        lost: the tensors of which there was no room for a value, of which none is kept then.
    """

    def __init__(self, budget: int = BUDGET_BYTES) -> None:
        self.taken: list[TensorValue] = []
        self.lost: set[int] = set()
        self._left = budget
        self._lock = threading.Lock()

    def take(self, tensor: int, value: Any) -> None:
        """Keep a value of a tensor, which is an array."""
        import numpy as np

        value = np.asarray(value)
        if value.dtype.kind not in "fciub" and value.dtype.name != "bfloat16":
            return
        sketched = value.nbytes > _FULL_BYTES and value.dtype.kind == "f"
        whole = _as_it_lies(value) if sketched else Array.of(value)
        kept, shape = (Array.of(sketch(value)), value.shape) if sketched else (whole, None)
        taken = TensorValue(tensor, kept, digest_of(whole), shape)
        with self._lock:
            if len(kept.data) > self._left:
                self.lost.add(tensor)
                return
            self._left -= len(kept.data)
            self.taken.append(taken)


def _as_it_lies(value: np.ndarray[Any, Any]) -> Array:
    """An array without a copy of it, which would be as large as all gradients of a model joined."""
    import numpy as np

    lying = np.ascontiguousarray(value)
    return Array(value.dtype.name, value.shape, lying.reshape(-1).view(np.uint8).data)
