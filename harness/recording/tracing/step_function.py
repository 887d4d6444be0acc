"""The function that makes a training step: its graph, and what stands in for its results in each call."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

from harness.evidence.step_graph import SAME_NUMBER, Argument, Graph, StepGraph
from harness.evidence.watched_step import Frame
from harness.recording.tracing.arguments import arguments_of, lengths_of, pulled_of, relaxed
from harness.recording.tracing.assignments import changed_by
from harness.recording.tracing.graphs import GraphRecords
from harness.recording.tracing.length_queries import LengthQueries
from harness.recording.tracing.plain_arguments import PlainArguments
from harness.recording.tracing.process import TracedProcess, TracingDone
from harness.recording.tracing.result_values import opened, standins
from harness.recording.tracing.trace_notes import TraceNotes

_CALLS_MAX = 256
_SECONDS_MAX = 15.0
"""How long it is looked at what a program does around its function."""
_ANEW_MAX = 6
"""For so many further numbers of examples the function is traced anew."""


class StepFunction:
    """Traces a function, and answers later calls of it.

    Args:
        process: whose calls.
        noted: what is heard of the program.
        beside: whether it is none that trains, whose calls are not the program's steps.

    Attributes:
        function: that of the step, None as long as there is none.
        merged: by an operation that replicas have made together the frame that asked for it.
        lengths: as of `StepGraph`.
        changed: handles of the variables that the function may change.
        asked: what the program asks of lengths that are open, in sentences.
    """

    def __init__(self, process: TracedProcess, noted: TraceNotes, *, beside: bool = False) -> None:
        self._process, self._noted, self._beside = process, noted, beside
        self._plain = PlainArguments(process.yielded, process.handles)
        self._asking = LengthQueries(process.places)
        self.function: Any = None
        self.merged: dict[str, Frame] = {}
        self.lengths: list[Any] = []
        self._concrete: Any = None
        self._fixed = False
        self.changed: list[Any] = []
        self._again: Callable[[], Any] = lambda: None
        self._calls = 0
        self._until = 0.0

    @property
    def asked(self) -> list[str]:
        """See the class."""
        return self._asking.found

    def concrete(self, function: Any, args: Any, options: Any) -> Any:
        """The function for any number of examples, or else for as many as there are."""
        given = relaxed((args, options), self._process.yielded)
        self._fixed = False
        self._asking.found.clear()
        with self._asking.active():
            try:
                return function.get_concrete_function(*given[0], **given[1])
            except Exception as first:  # noqa: BLE001 - some that make variables cannot be traced so the first time
                try:
                    concrete = function.get_concrete_function(*args, **options)
                except TypeError:  # of a function that TensorFlow has left half made, where the first error says why
                    raise first from None
            try:
                return function.get_concrete_function(*given[0], **given[1])
            except Exception:  # noqa: BLE001 - a function that asks for the number of examples
                self._fixed = True
                self._asking.found.clear()
                return concrete

    def begin(self, function: Any, concrete: Any, given: Any, seconds: float) -> tuple[StepGraph, Any]:
        """What is traced of the step, and what stands in for the results of its first call."""
        self.function, self._concrete = function, concrete
        self.lengths.append(lengths_of(given, self._process.yielded))
        self._noted.limits += [SAME_NUMBER] if self._fixed else []
        traced = self._taken_apart(concrete, given, seconds)
        self.changed = changed_by(concrete.graph)
        result = self._again()
        self._until = time.monotonic() + _SECONDS_MAX
        self._noted.changed += self._plain.noted(given)
        return traced, result

    def again(self, traced: StepGraph, function: Any, given: Any) -> Any:
        """What stands in for the results of another call.

        Raises:
            Enough: there were many.
        """
        if not self._beside:
            self._noted.called()
        self._calls += 1
        if self._calls > _CALLS_MAX or time.monotonic() > self._until:
            self._noted.cut = True
            raise TracingDone
        self._noted.changed += self._plain.noted(given)
        try:
            self._note_trace(traced, function, given)
        except Exception as error:  # noqa: BLE001 - whatever a program does when it is traced once more
            self._noted.doubts.append(f"the function cannot be traced again: {type(error).__name__}: {error}")
        return self._again()

    def _note_trace(self, traced: StepGraph, function: Any, given: Any) -> None:
        """Whether a later call would run another graph than the one that is looked at."""
        lengths = lengths_of(given, self._process.yielded)
        (args, options), anew = given, relaxed(given, self._process.yielded)
        if self._fixed:
            # Of other lengths nothing is said.
            again = None if lengths != self.lengths[0] else function.get_concrete_function(*args, **options)
        else:
            again = function.get_concrete_function(*anew[0], **anew[1])
        if again not in (None, self._concrete):
            self._noted.doubts.append("the function is traced again for other arguments, which is not looked at")
        elif not self._fixed and lengths not in self.lengths:
            self.lengths.append(lengths)
            if len(self.lengths) > 1 + _ANEW_MAX:
                self._noted.doubts.append("the function is traced for many numbers of examples; not all are looked at")
            elif not self._is_same(traced, _traced_anew(function, *anew), given):
                self._noted.doubts.append(
                    "traced again, for another number of examples, the function is another graph, which is not looked "
                    "at"
                )

    def _is_same(self, traced: StepGraph, concrete: Any, given: Any) -> bool:
        process = self._process
        graphs = GraphRecords(process.places.is_own, {})
        graphs.add(concrete.graph, opened(concrete.graph.structured_outputs)[1])
        arguments = arguments_of(concrete.graph, given, process.yielded, process.handles, process.first)
        kept = tuple(each for each in graphs.graphs if each is not None)
        return same_graphs(traced.graphs, kept) and same_arguments(traced.arguments, arguments)

    def _taken_apart(self, concrete: Any, given: Any, seconds: float) -> StepGraph:
        process = self._process
        graphs = GraphRecords(process.places.is_own, self.merged)
        structure, tensors = opened(concrete.graph.structured_outputs)
        graphs.add(concrete.graph, tensors)
        _, outputs = standins(structure, tensors, process.replicas, process.first)
        self._again = lambda: standins(structure, tensors, process.replicas, process.first, self._calls)[0]
        return StepGraph(
            task=process.task,
            replicas=process.replicas,
            graphs=tuple(each for each in graphs.graphs if each is not None),
            frames=graphs.frames,
            arguments=arguments_of(concrete.graph, given, process.yielded, process.handles, process.first),
            outputs=outputs,
            seconds=seconds,
            function=str(getattr(self.function, "__name__", "")),
            by_hand=process.yielded.by_hand,
            pulled=pulled_of(given, process.first),
        )


# Whether two traces of a function for the same kinds of arguments are the same graph.
#
# They are not where a program goes by something that tracing itself changes. It traces anew for each number of
# examples that comes along, so all of its graphs have to be the one that is looked at.


def _traced_anew(function: Any, args: Any, options: Any) -> Any:
    """The graph of a `tf.function` that was traced before, as it would be traced now."""
    from tensorflow.python.eager.polymorphic_function import tracing_compilation

    made = function._created_variables  # noqa: SLF001 - as its own get_concrete_function; nothing public traces anew
    config = function._no_variable_creation_config if made else function._variable_creation_config  # noqa: SLF001
    anew = dataclasses.replace(config, bind_graph_to_function=True, function_cache=None)
    return tracing_compilation.trace_function(args, options, anew)


def same_graphs(one: Sequence[Graph], other: Sequence[Graph]) -> bool:
    """Whether they consist of the same operations in the same order; names and keys of collectives may differ."""
    return [_form(each) for each in one] == [_form(each) for each in other]


def _form(graph: Graph) -> object:
    read_by: dict[int, set[bool]] = {}
    for node in graph.nodes:
        for place, (operand, _) in enumerate(node.inputs):
            read_by.setdefault(operand, set()).add(node.type.startswith("Collective") and place > 0)
    nodes = [
        (
            node.type,
            node.inputs,
            node.attributes,
            node.functions,
            node.shapes,
            node.dtypes,
            # Of the numbers that collectives find each other by, each trace has new ones.
            0 if read_by.get(at) == {True} else node.digest,
        )
        for at, node in enumerate(graph.nodes)
    ]
    return nodes, graph.inputs, graph.outputs


def same_arguments(one: Sequence[Argument], other: Sequence[Argument]) -> bool:
    """Whether they mean the same, apart from what they hold; what is captured has to hold the same, too."""
    return [_role(each) for each in one] == [_role(each) for each in other]


def _role(argument: Argument) -> object:
    held = argument.digest if argument.name.startswith("captured") else 0
    return argument.kind, argument.name, argument.replica, argument.synchronization, argument.aggregation, held
