"""Hears the calls that a program makes, traces the first function that trains, and goes on with stand-ins."""

from __future__ import annotations

import contextlib
import functools
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from harness.evidence.step_graph import StepGraph
from harness.recording.layouts import CopiesDiffer
from harness.recording.packing import unlike_copies_heard
from harness.recording.patches import patched
from harness.recording.tracing.assignments import assigns, changes
from harness.recording.tracing.process import TracedProcess, TracingDone
from harness.recording.tracing.python_decisions import BETWEEN, FROM_EXAMPLES, decisions_heard, of_program
from harness.recording.tracing.step_function import StepFunction
from harness.recording.tracing.trace_notes import TraceNotes
from harness.recording.tracing.trial_batches import BatchOutcome, TrialBatch, tried
from harness.recording.watch.compiled import uncompiled
from harness.subject.strategies.dtensor import MeshStrategy

_NAMED = re.compile(r"\w*(Error|Exception)\b[^:]*: ")
_READS = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd")


class Tracer:
    """Hears the calls of functions, and traces the first that trains.

    Args:
        process: whose calls.
        strategy: of the run.
        batches: not to be traced, but to be carried out on.

    Attributes:
        traced: the first function that trains, None until there is one.
        outcomes: of the batches.
        noted: what else was heard.
    """

    def __init__(self, process: TracedProcess, strategy: Any, batches: tuple[TrialBatch, ...] = ()) -> None:
        self._process, self._strategy, self._batches = process, strategy, batches
        self.noted = TraceNotes(process)
        self._stepping = StepFunction(process, self.noted)
        self._besides = _OtherFunctions(process, self.noted, lambda: self._differentiated)
        self.traced: StepGraph | None = None
        self.outcomes: list[BatchOutcome] = []
        self._inside = False
        self._differentiated = False
        self._eager = 0
        self._unlike: list[str] = []

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Hear what the program does in this context."""
        import tensorflow as tf
        from tensorflow.python.distribute import distribute_lib
        from tensorflow.python.eager.polymorphic_function import concrete_function, polymorphic_function
        from tensorflow.python.framework import op_callbacks

        with contextlib.ExitStack() as stack:
            stack.enter_context(uncompiled())
            stack.enter_context(self._process.active())
            if isinstance(self._strategy, MeshStrategy):
                stack.enter_context(unlike_copies_heard(self._unlike.append, lambda: contextlib.suppress(Exception)))
            stack.enter_context(patched(polymorphic_function.Function, "__call__", self._calling))
            stack.enter_context(patched(concrete_function.ConcreteFunction, "__call__", self._calling_graph))
            stack.enter_context(patched(distribute_lib.StrategyBase, "run", self._running))
            stack.enter_context(patched(tf.GradientTape, "gradient", self._differentiating))
            stack.enter_context(decisions_heard(self._process.places, self._decided))
            op_callbacks.add_op_callback(self._carried_out)
            stack.callback(op_callbacks.remove_op_callback, self._carried_out)
            try:
                yield
            except TracingDone:
                return
            except Exception as error:
                if self._stepping.function is None:
                    raise
                # It may be the stand-ins that it cannot go on with.
                self.noted.cut = True
                if not self.noted.was_called:
                    self.noted.doubts.append(f"it ended after its first step with {type(error).__name__}")
                self.noted.limits.append(f"it goes on as before where it ended here, with {type(error).__name__}")

    def result(self) -> StepGraph:
        """What was traced."""
        if self.traced is None:
            why = "no tf.function that trains was called"
            if self._differentiated:
                why = "the program trains eagerly, operation by operation, so there is no graph to look at"
            return self._nothing(why)
        whole = self.noted.into(self.traced, self._stepping.asked, self._stepping.lengths)
        return msgspec.structs.replace(whole, others=self._besides.traced)

    def _nothing(self, why: str) -> StepGraph:
        return StepGraph(self._process.task, self._process.replicas, why_not=why)

    @contextlib.contextmanager
    def _own(self) -> Iterator[None]:
        """What is called in this context is not the program's own call."""
        self._inside = True
        try:
            yield
        finally:
            self._inside = False

    @contextlib.contextmanager
    def _of_one_tensor(self) -> Iterator[None]:
        """There is no step to follow where devices have different copies of what it is given."""
        try:
            yield
        except CopiesDiffer as error:
            line = self._unlike[0] if self._unlike else ""
            self.traced = msgspec.structs.replace(self._nothing(str(error)), unlike=line)
            raise TracingDone from error

    # ------------------------------------------------------------------ what is heard

    def _decided(self) -> None:
        """The program asks a tensor for yes or no."""
        if self.traced is not None and not self._inside:
            self.noted.limits.append(BETWEEN)

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
                self.noted.changed.append("strategy.run is called outside of the function")
            self._eager += by_hand
            try:
                return original(strategy, *args, **options)
            finally:
                self._eager -= by_hand

        return run

    def _carried_out(
        self, kind: str | bytes, inputs: Any, attrs: Any, outputs: Any, op_name: str | None = None, graph: Any = None
    ) -> None:
        """Note an eager operation that reads or changes a variable; called by TensorFlow."""
        name = kind.decode() if isinstance(kind, bytes) else kind
        if graph is not None and self._inside and self.traced is None and _in_main_thread():
            # What replicas ask for together is done by the thread that waits for them.
            number = self._process.places.other()
            if number is not None and op_name:
                self._stepping.merged[op_name] = self._process.places.frames[number]
        if graph is not None or self._inside:
            return
        if any(each in self._process.yielded for each in inputs) and of_program(self._process.places):
            self.noted.limits.append(FROM_EXAMPLES)
        if self.traced is None or not (assigns(name) or name in _READS):
            return
        if of_program(self._process.places):
            self.noted.limits.append(BETWEEN)
            if name in _READS and any(inputs[0] is each for each in (*self._stepping.changed, *self._besides.changed)):
                self.noted.doubts.append(
                    "the program reads a variable that the step changes, and that was not changed: what follows is not "
                    "known"
                )
        if assigns(name):
            self.noted.assigned(name, inputs)

    # ------------------------------------------------------------------ calls of functions

    def _calling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        import tensorflow as tf

        def call(function: Any, *args: Any, **options: Any) -> Any:
            if self._inside or not tf.executing_eagerly():
                return original(function, *args, **options)
            with self._own(), self._of_one_tensor():
                if self.traced is None:
                    return self._traced_or_run(original, function, args, options)
                if function is self._stepping.function:
                    return self._stepping.again(self.traced, function, (args, options))
                if function in self._besides:
                    return self._besides.again(function, (args, options))
                self._differentiated = False
                graph = function.get_concrete_function(*args, **options).graph
                if changes(graph):
                    beside, result = self._besides.begin(function, args, options)
                    if beside:
                        return result
                return self._by_another(original, function, graph, args, options)

        return call

    def _calling_graph(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """A graph that the program calls as such is another function, and none that is traced."""
        import tensorflow as tf

        def call(function: Any, *args: Any, **options: Any) -> Any:
            if self._inside or not tf.executing_eagerly():
                return original(function, *args, **options)
            with self._own():
                return self._by_another(original, function, function.graph, args, options)

        return call

    def _by_another(self, original: Callable[..., Any], function: Any, graph: Any, args: Any, options: Any) -> Any:
        """What a function gives that does not train: whatever is reported from then on may follow from it."""
        import tensorflow as tf

        if self.traced is not None and changes(graph):
            self.noted.changed.append("another function changes variables")
            raise TracingDone
        given = original(function, *args, **options)
        values = tf.nest.flatten(given, expand_composites=True)
        self.noted.others |= any(isinstance(each, tf.Tensor) and each.dtype.is_numeric for each in values)
        return given

    def _traced_or_run(self, original: Callable[..., Any], function: Any, args: Any, options: Any) -> Any:
        began = time.monotonic()
        self._differentiated = False
        try:
            concrete = self._stepping.concrete(function, args, options)
        except Exception as error:
            if not self._differentiated:
                raise
            why = f"TensorFlow does not give the graph of the function: {_said(error)}"
            self.traced = self._nothing(why)
            raise TracingDone from error
        if not (self._differentiated or changes(concrete.graph)):
            return self._by_another(original, function, concrete.graph, args, options)
        if self._batches:
            process = self._process
            copy = function._clone(function.python_function)  # noqa: SLF001 - nothing public traces for what is given
            self.outcomes = tried(
                functools.partial(original, function),
                functools.partial(original, copy),
                (args, options),
                concrete.graph,
                process.yielded,
                process.handles,
                self._strategy,
                self._batches,
            )
            raise TracingDone
        seconds = time.monotonic() - began
        if self._eager or not _in_main_thread():
            self.traced = self._nothing("the program trains eagerly: each replica calls a function of its own")
            raise TracingDone
        try:
            self.traced, result = self._stepping.begin(function, concrete, (args, options), seconds)
        except CopiesDiffer:
            raise
        except Exception as error:
            self.traced = self._nothing(f"the graph cannot be taken apart: {type(error).__name__}: {error}")
            raise TracingDone from error
        return result


def _said(error: Exception) -> str:
    """What an error of a traced program says, without the lines of code that lead to it."""
    said = [line.strip() for line in str(error).splitlines() if _NAMED.match(line.strip())]
    return said[-1] if said else f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


# Functions that a program calls besides its step and that change variables without training, as an evaluation does.
#
# Each is looked at like the step: traced, not carried out, with stand-ins for its results. What keeps every variable
# what it is on one device may come between two steps as often as it likes.


_FUNCTIONS_MAX = 4


class _OtherFunctions:
    """Knows them.

    Args:
        process: whose calls.
        noted: what is heard of the program; each call is noted there, in its order.
        differentiated: whether a tape has been asked for gradients since the last function was traced.
    """

    def __init__(self, process: TracedProcess, noted: TraceNotes, differentiated: Callable[[], bool]) -> None:
        self._process, self._noted, self._differentiated = process, noted, differentiated
        self._found: list[tuple[StepFunction, StepGraph]] = []

    @property
    def changed(self) -> list[Any]:
        """Handles of the variables that they may change."""
        return [handle for stepping, _ in self._found for handle in stepping.changed]

    @property
    def traced(self) -> tuple[StepGraph, ...]:
        """What was traced of each, in the order in which they were called first."""
        return tuple(
            msgspec.structs.replace(traced, doubts=tuple(stepping.asked), lengths=tuple(map(tuple, stepping.lengths)))
            for stepping, traced in self._found
        )

    def __contains__(self, function: Any) -> bool:
        return any(stepping.function is function for stepping, _ in self._found)

    def again(self, function: Any, given: Any) -> Any:
        """What stands in for the results of another call."""
        ((stepping, traced),) = [each for each in self._found if each[0].function is function]
        self._note(function)
        return stepping.again(traced, function, given)

    def begin(self, function: Any, args: Any, options: Any) -> tuple[bool, Any]:
        """Whether such a function may come between two steps, and what stands in for the results of its first call.

        One that takes gradients may not: it is another step.
        """
        stepping = StepFunction(self._process, self._noted, beside=True)
        if len(self._found) == _FUNCTIONS_MAX:
            return False, None
        try:
            concrete = stepping.concrete(function, args, options)
            if self._differentiated():
                return False, None
            traced, result = stepping.begin(function, concrete, (args, options), 0.0)
        except Exception:  # noqa: BLE001 - whatever cannot be traced, or taken apart, is not known
            return False, None
        self._found.append((stepping, traced))
        self._note(function)
        return True, result

    def _note(self, function: Any) -> None:
        self._noted.changed.append(f"function {getattr(function, '__name__', '')!r} is called")
