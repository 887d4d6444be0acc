"""Runs a program until it would take its first training step, traces that step, and sees what becomes of its results.

The function that trains is not carried out: stand-ins take the place of its results, and the program goes on with them,
so that it is seen what it does between its steps. Nothing that it trains changes by that.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from harness.evidence.traced import SAME_NUMBER, Reported, Traced, write_traced
from harness.evidence.watched import Frame
from harness.recording.keras_callback import Reports, make_callback
from harness.recording.patches import patched
from harness.recording.tensors import tensor_of
from harness.recording.tracing.agreeing import same_arguments, same_graphs, traced_anew
from harness.recording.tracing.arguments import Handles, Yielded, arguments_of, lengths_of, pulled_of, relaxed
from harness.recording.tracing.asking import Asked
from harness.recording.tracing.between import BETWEEN, OTHERS, decisions_heard, of_program
from harness.recording.tracing.graphs import Graphs
from harness.recording.tracing.plain import Plain
from harness.recording.tracing.standins import opened, reported_value, standins
from harness.recording.tracing.trying import Batch, Outcome, tried, write_outcomes
from harness.recording.watch.compiled import uncompiled
from harness.recording.watch.places import Places
from harness.recording.watch.variables import Variables

__all__ = ["Tracer", "Tracing", "trace_client"]


_CALLS_MAX = 256
_SECONDS_MAX = 15.0
"""How long it is looked at what a program does around its function."""
_ANEW_MAX = 2
"""For so many further numbers of examples the function is traced anew."""


class Tracing(msgspec.Struct, frozen=True):
    """Where what is traced goes: a folder, and how many replicas the strategy has, which the reference has not.

    With `batches`, those of each client, the function is carried out on them, and variables are set back after each.
    """

    path: str
    replicas: int
    batches: tuple[tuple[Batch, ...], ...] = ()


class Enough(BaseException):
    """Ends a program of which there is nothing more to see; nothing that a program catches."""


class TraceRecorder:
    """What a program gets as `record`: it hears what is reported, and writes nothing."""

    def __init__(self, tracer: Tracer, strategy: Any, directory: Path) -> None:
        self.directory = directory
        self.strategy = strategy
        self.observed = 0
        self._tracer = tracer

    def step(self, **reported: Any) -> None:
        """As of `Recorder`."""
        self._tracer.hear(reported)

    def final(self, **reported: Any) -> None:
        """As of `Recorder`."""
        self._tracer.hear(reported)

    def keras_callback(self, model: Any) -> Any:
        """As of `Recorder`."""

        def step(*, call: str, per_epoch: bool, model: Any, **reported: Any) -> None:
            self.step(**reported)

        def final(*, call: str, **reported: Any) -> None:
            self.final(**reported)

        def epoch_end(**_: Any) -> None:
            return

        return make_callback(Reports(self.strategy, step, final, epoch_end), model)


class Tracer:
    """Hears the calls of functions, and traces the first that trains."""

    def __init__(self, replicas: int, first_replica: int, task: str) -> None:
        self._replicas, self._first, self._task = replicas, first_replica, task
        self.strategy: Any = None
        self.batches: tuple[Batch, ...] = ()
        self.outcomes: list[Outcome] = []
        self._judged: set[str] = set()
        self._places = Places()
        self._variables = Variables(self._places.caller)
        self._handles = Handles(self._variables, first_replica)
        self._yielded = Yielded()
        self._inside = False
        self._differentiated = False
        self._function: Any = None
        self._reported: list[Reported] = []
        self._heard = False
        self._changed: list[str] = []
        self.traced: Traced | None = None
        self._again: Callable[[], Any] = lambda: None
        self._merged: dict[str, Frame] = {}
        self._copies: dict[int, list[str]] = {}
        self._plain = Plain(self._yielded, self._handles)
        self._eager = 0
        self._calls = 0
        self._until = 0.0
        self._asked = Asked(self._places)
        self._concrete_function: Any = None
        self._fixed = False
        self._lengths: list[Any] = []
        self._others = False
        self._cut = False
        self._marks: list[tuple[int, int]] = []
        self._doubts: list[str] = []
        self._limits: list[str] = []

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Hear what the program does in this context."""
        import tensorflow as tf
        from tensorflow.python.distribute import distribute_lib
        from tensorflow.python.eager.polymorphic_function import polymorphic_function
        from tensorflow.python.framework import op_callbacks

        with contextlib.ExitStack() as stack:
            for context in (uncompiled(), self._variables.active(), self._handles.active(), self._yielded.active()):
                stack.enter_context(context)
            stack.enter_context(patched(polymorphic_function.Function, "__call__", self._calling))
            stack.enter_context(patched(distribute_lib.StrategyBase, "run", self._running))
            stack.enter_context(patched(tf.GradientTape, "gradient", self._differentiating))
            stack.enter_context(decisions_heard(self._places, self._decided))
            op_callbacks.add_op_callback(self._carried_out)
            stack.callback(op_callbacks.remove_op_callback, self._carried_out)
            try:
                yield
            except Enough:
                return
            except Exception as error:
                if self._function is None:
                    raise
                # It may be the stand-ins that it cannot go on with.
                self._cut = True
                self._limits.append(f"it goes on as before where it ended here, with {type(error).__name__}")

    def result(self) -> Traced:
        """What was traced."""
        if self.traced is None:
            why = "no tf.function that trains was called"
            if self._differentiated:
                why = "the program trains eagerly, operation by operation, so there is no graph to look at"
            return Traced(self._task, self._replicas, why_not=why)
        reported = tuple(self._reported) if self._heard else None
        if len({tuple(each) for each in self._copies.values()}) > 1:
            self._doubts.append("outside of the function copies of variables are assigned other values than others")
        judged = tuple(sorted(self._judged))
        return msgspec.structs.replace(
            self.traced,
            reported=reported,
            changed=tuple(self._changed),
            judged=judged,
            doubts=tuple(dict.fromkeys((*self._asked.found, *self._doubts))),
            limits=tuple(dict.fromkeys(self._limits)),
            marks=tuple(self._marks),
            cut=self._cut,
            lengths=tuple(map(tuple, self._lengths)),
        )

    def hear(self, reported: dict[str, Any]) -> None:
        """Note what is reported, from the beginning on: before the step as well."""
        import tensorflow as tf

        self._heard = True
        for variable in tf.nest.flatten(reported.get("variables")):
            held = tensor_of(variable)
            held = held._values[0] if hasattr(held, "_values") else held  # noqa: SLF001 - the first copy
            if (known := self._handles.argument(getattr(held, "handle", None))) is not None:
                self._judged.add(known.name)
        for observable in ("loss", "gradients", "metrics", "predictions"):
            given = reported.get(observable)
            for at, each in enumerate(tf.nest.flatten(given)):
                value = reported_value(each)
                if value is not None:
                    digest = zlib.crc32(value.astype("float64").tobytes(), zlib.crc32(repr(value.shape).encode()))
                    self._limits += [OTHERS] if self._others else []
                    self._reported.append(Reported(f"{observable} {at}" if at else observable, digest))

    def _decided(self) -> None:
        """The program asks a tensor for yes or no."""
        if self.traced is not None and not self._inside:
            self._limits.append(BETWEEN)

    def _differentiating(self, original: Callable[..., Any]) -> Callable[..., Any]:
        import tensorflow as tf

        def gradient(*args: Any, **options: Any) -> Any:
            self._differentiated = True
            return original(*args, **options)

        as_it_is: Callable[..., Any] = tf.autograph.experimental.do_not_convert(gradient)
        return as_it_is

    def _running(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """An eager `Strategy.run` after the step is more than the function does."""
        import tensorflow as tf
        from tensorflow.python.eager.polymorphic_function import polymorphic_function

        def run(strategy: Any, *args: Any, **options: Any) -> Any:
            if self._inside or not tf.executing_eagerly():
                return original(strategy, *args, **options)
            called = args[0] if args else options.get("fn")
            # A function of TensorFlow's is heard of when it is called.
            by_hand = not isinstance(called, polymorphic_function.Function)
            if by_hand and self.traced is not None:
                self._changed.append("strategy.run is called outside of the function")
            self._eager += by_hand
            try:
                return original(strategy, *args, **options)
            finally:
                self._eager -= by_hand

        return run

    def _calling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        import tensorflow as tf

        def call(function: Any, *args: Any, **options: Any) -> Any:
            if self._inside or not tf.executing_eagerly():
                return original(function, *args, **options)
            if self.traced is not None:
                return self._afterwards(original, function, args, options)
            self._inside = True
            try:
                return self._traced_or_run(original, function, args, options)
            finally:
                self._inside = False

        return call

    def _afterwards(self, original: Callable[..., Any], function: Any, args: Any, options: Any) -> Any:
        if function is self._function:
            self._marks.append((len(self._changed), len(self._reported)))
            self._calls += 1
            if self._calls > _CALLS_MAX or time.monotonic() > self._until:
                self._cut = True
                raise Enough
            self._changed += self._plain.noted((args, options))
            self._note_trace(function, args, options)
            return self._again()
        self._inside = True
        try:
            if _changes(function.get_concrete_function(*args, **options).graph):
                self._changed.append("another function changes variables")
                raise Enough
            return self._by_another(original, function, args, options)
        finally:
            self._inside = False

    def _by_another(self, original: Callable[..., Any], function: Any, args: Any, options: Any) -> Any:
        """What a function gives that does not train: whatever is reported from then on may follow from it."""
        import tensorflow as tf

        given = original(function, *args, **options)
        values = tf.nest.flatten(given, expand_composites=True)
        self._others = self._others or any(isinstance(each, tf.Tensor) and each.dtype.is_numeric for each in values)
        return given

    def _traced_or_run(self, original: Callable[..., Any], function: Any, args: Any, options: Any) -> Any:
        began = time.monotonic()
        self._differentiated = False
        try:
            concrete = self._concrete(function, args, options)
        except Exception as error:
            if not self._differentiated:
                raise
            why = f"TensorFlow does not give the graph of the function: {type(error).__name__}: {error}"
            self.traced = Traced(self._task, self._replicas, why_not=why)
            raise Enough from error
        if not (self._differentiated or _changes(concrete.graph)):
            return self._by_another(original, function, args, options)
        if self.batches:
            call = functools.partial(original, function)
            given = (args, options)
            self.outcomes = tried(
                call, given, concrete.graph, self._yielded, self._handles, self.strategy, self.batches
            )
            raise Enough
        seconds = time.monotonic() - began
        if self._eager or threading.current_thread() is not threading.main_thread():
            why = "the program trains eagerly: each replica calls a function of its own"
            self.traced = Traced(self._task, self._replicas, why_not=why)
            raise Enough
        self._function, self._concrete_function = function, concrete
        self._lengths.append(lengths_of((args, options), self._yielded))
        self._limits += [SAME_NUMBER] if self._fixed else []
        try:
            self._again, self.traced = self._data(concrete, (args, options), seconds)
            result = self._again()
            self._until = time.monotonic() + _SECONDS_MAX
        except Exception as error:
            why = f"the graph cannot be taken apart: {type(error).__name__}: {error}"
            self.traced = Traced(self._task, self._replicas, why_not=why)
            raise Enough from error
        self._changed += self._plain.noted((args, options))
        return result

    def _concrete(self, function: Any, args: Any, options: Any) -> Any:
        """The function for any number of examples, or else for as many as there are."""
        given = relaxed((args, options), self._yielded)
        self._fixed = False
        self._asked.found.clear()
        with self._asked.active():
            try:
                return function.get_concrete_function(*given[0], **given[1])
            except Exception:  # noqa: BLE001 - some that make variables cannot be traced so the first time
                concrete = function.get_concrete_function(*args, **options)
            try:
                return function.get_concrete_function(*given[0], **given[1])
            except Exception:  # noqa: BLE001 - a function that asks for the number of examples
                self._fixed = True
                self._asked.found.clear()
                return concrete

    def _note_trace(self, function: Any, args: Any, options: Any) -> None:
        """Whether a later call would run another graph than the one that is looked at."""
        lengths = lengths_of((args, options), self._yielded)
        given = relaxed((args, options), self._yielded)
        self._inside = True
        try:
            if self._fixed:
                # Of other lengths nothing is said.
                again = None if lengths != self._lengths[0] else function.get_concrete_function(*args, **options)
            else:
                again = function.get_concrete_function(*given[0], **given[1])
            if again not in (None, self._concrete_function):
                self._doubts.append("the function is traced again for other arguments, which is not looked at")
            elif not self._fixed and lengths not in self._lengths and len(self._lengths) <= _ANEW_MAX:
                self._lengths.append(lengths)
                self._compare(traced_anew(function, *given), (args, options))
        except Exception as error:  # noqa: BLE001 - whatever a program does when it is traced once more
            self._doubts.append(f"the function cannot be traced again: {type(error).__name__}: {error}")
        finally:
            self._inside = False

    def _compare(self, concrete: Any, given: Any) -> None:
        graphs = Graphs(self._places.is_own, {})
        graphs.add(concrete.graph, opened(concrete.graph.structured_outputs)[1])
        arguments = arguments_of(concrete.graph, given, self._yielded, self._handles, self._first)
        kept = tuple(each for each in graphs.graphs if each is not None)
        if self.traced is not None and not (
            same_graphs(self.traced.graphs, kept) and same_arguments(self.traced.arguments, arguments)
        ):
            self._doubts.append(
                "traced again, for another number of examples, the function is another graph, which is not looked at"
            )

    def _data(self, concrete: Any, given: Any, seconds: float) -> tuple[Callable[[], Any], Traced]:
        graphs = Graphs(self._places.is_own, self._merged)
        structure, tensors = opened(concrete.graph.structured_outputs)
        graphs.add(concrete.graph, tensors)
        _, outputs = standins(structure, tensors, self._replicas, self._first)
        traced = Traced(
            task=self._task,
            replicas=self._replicas,
            graphs=tuple(each for each in graphs.graphs if each is not None),
            frames=graphs.frames,
            arguments=arguments_of(concrete.graph, given, self._yielded, self._handles, self._first),
            outputs=outputs,
            seconds=seconds,
            function=str(getattr(self._function, "__name__", "")),
            by_hand=self._yielded.by_hand,
            pulled=pulled_of(given, self._first),
        )
        return (lambda: standins(structure, tensors, self._replicas, self._first, self._calls)[0]), traced

    def _carried_out(
        self, kind: str | bytes, inputs: Any, attrs: Any, outputs: Any, op_name: str | None = None, graph: Any = None
    ) -> None:
        """Note an eager operation that reads or changes a variable; called by TensorFlow."""
        name = kind.decode() if isinstance(kind, bytes) else kind
        if (
            graph is not None
            and self._inside
            and self.traced is None
            and threading.current_thread() is threading.main_thread()
        ):
            # What replicas ask for together is done by the thread that waits for them.
            number = self._places.other()
            if number is not None and op_name:
                self._merged[op_name] = self._places.frames[number]
        if graph is not None or self.traced is None or self._inside or not (_assigns(name) or name == "ReadVariableOp"):
            return
        if of_program(self._places):
            self._limits.append(BETWEEN)
        if not _assigns(name):
            return
        found = self._handles.argument(inputs[0])
        values = [zlib.crc32(each.numpy().tobytes()) for each in inputs[1:] if each.dtype.is_numeric]
        if found is not None:
            change = f"{name} of {found.name} outside of the function, of {values}"
            self._copies.setdefault(found.replica or 0, []).append(change)
            if (found.replica or 0) == self._first:
                self._changed.append(change)


def _assigns(kind: str) -> bool:
    return kind.startswith(("Assign", "ResourceApply", "ResourceSparseApply", "ResourceScatter"))


def _changes(graph: Any) -> bool:
    """Whether a graph, or one that it carries out, changes a variable."""
    definition = graph.as_graph_def()
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    return any(_assigns(node.op) for node in nodes)


def trace_client(program: Any, case: Any, assignment: Any, tracing: Tracing) -> dict[str, Any]:
    """Run the program under the strategy until its first training step is traced, and leave that as a file.

    Returns:
        `observed`, 1, as a client of `run_client` does.
    """
    from harness.recording.client import prepared, task_name
    from harness.recording.unseeded import seeded_generators

    strategy = prepared(case, assignment)
    first = case.clients.index(task_name()) * case.family.local_replicas(strategy, case)
    tracer = Tracer(tracing.replicas, first, task_name())
    tracer.strategy = strategy
    tracer.batches = tracing.batches[case.clients.index(task_name())]
    record = TraceRecorder(tracer, strategy, Path(assignment.directory))
    train = program.load()
    with seeded_generators(assignment.seed, case.clients.index(task_name())), tracer.active():
        train(strategy, record)
    place = Path(tracing.path) / f"{task_name().replace(':', '-')}.traced"
    if tracer.batches:
        write_outcomes(place.with_suffix(".outcomes"), tracer.outcomes)
    else:
        write_traced(place, tracer.result())
    return {"observed": 1, "replicas": strategy.num_replicas_in_sync}
