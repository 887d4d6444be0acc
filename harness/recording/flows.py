"""Which variables depend on what workers have combined, as the graphs of the program's `tf.function`s say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from harness.recording.tensors import tensor_of

# Ops that change the variable whose handle is their first input.
_WRITES = ("Assign", "ResourceApply", "ResourceSparseApply", "ResourceScatter")
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")


class Flows:
    """Keeps what collectives give that became parts of graphs, and follows it from op to op when asked.

    Only what graphs show is found. What a function returns to Python is lost, what a branch or a loop makes of it comes
    out of it again, and nothing is known of what runs eagerly.
    """

    def __init__(self) -> None:
        self._results: list[Any] = []

    def combined(self, result: Any) -> None:
        """Take in what a collective gives, unless it has run already."""
        if _is_symbolic(result):
            self._results.append(result)

    def changed(self, variables: Sequence[tuple[str, Sequence[Any]]]) -> tuple[str, ...]:
        """The names of those into which goes what was combined, or another variable into which it does.

        Args:
            variables: each with its name, as one object or as its shards.
        """
        if not self._results:
            return ()
        changed = _Walk(self._results).changed
        return tuple(name for name, found in variables if any(changed & _handles(each) for each in found))


class _Walk:
    """All that can be reached from some tensors in their graphs and the functions which these call.

    Attributes:
        changed: the ids of the handles of the variables that are written on the way.
    """

    def __init__(self, start: Iterable[Any]) -> None:
        self.changed: set[int] = set()
        self._graphs: dict[int, Any] = {}
        self._stands_for: dict[int, list[Any]] = defaultdict(list)  # of a placeholder
        self._goes_to: dict[int, list[Any]] = defaultdict(list)  # into a function, and out of it
        self._kept: list[Any] = []  # since an id says nothing of what is gone
        waiting = list(start)
        for tensor in waiting:
            self._enter(tensor.graph)
        readers = self._readers()
        seen: set[int] = set()
        while waiting:
            tensor = waiting.pop()
            if id(tensor) in seen:
                continue
            seen.add(id(tensor))
            self._kept.append(tensor)
            waiting += self._goes_to[id(tensor)]
            for op in tensor.consumers():
                if op.type.startswith(_WRITES) and op.inputs[0] is not tensor:
                    written = self._variables(op.inputs[0]) - self.changed
                    self.changed |= written
                    waiting += [each for handle in written for each in readers[handle]]
                elif op.type not in _CALLS:
                    waiting += op.outputs

    def _enter(self, graph: Any) -> None:
        """Get to know a graph, those that it is part of, and the functions that it calls."""
        if id(graph) in self._graphs or not hasattr(graph, "captures"):
            return
        self._graphs[id(graph)] = graph
        for outside, placeholder in graph.captures:
            self._link(self._stands_for, placeholder, outside)
        for op in graph.get_operations():
            if op.type in _CALLS and (inner := _called(op)) is not None:
                for given, placeholder in zip(op.inputs, inner.inputs, strict=False):
                    self._link(self._stands_for, placeholder, given)
                    self._link(self._goes_to, given, placeholder)
                for inside, outside in zip(inner.outputs, op.outputs, strict=False):
                    self._link(self._goes_to, inside, outside)
                self._enter(inner)
        self._enter(graph.outer_graph)

    def _link(self, links: dict[int, list[Any]], one: Any, other: Any) -> None:
        self._kept.append(one)
        links[id(one)].append(other)

    def _readers(self) -> dict[int, list[Any]]:
        """Of each handle of a variable what stands for it."""
        found: dict[int, list[Any]] = defaultdict(list)
        for placeholder in [each for each in self._kept if id(each) in self._stands_for]:
            for handle in self._variables(placeholder):
                found[handle].append(placeholder)
        return found

    def _variables(self, handle: Any) -> set[int]:
        """The ids of the handles outside of all graphs for which one inside may stand."""
        found: set[int] = set()
        waiting, seen = [handle], set()
        while waiting:
            each = waiting.pop()
            if id(each) in seen:
                continue
            seen.add(id(each))
            if id(each) in self._stands_for:
                waiting += self._stands_for[id(each)]
            elif not _is_symbolic(each):
                found.add(id(each))
        return found


def _is_symbolic(tensor: Any) -> bool:
    return hasattr(tensor, "consumers") and not hasattr(tensor, "numpy")


def _called(op: Any) -> Any:
    """The graph of the function that an op calls; None of one that was loaded without."""
    function = op.graph._get_function(op.get_attr("f").name)  # noqa: SLF001 - nothing public finds it
    return getattr(function, "graph", None)


def _handles(variable: Any) -> set[int]:
    inner = tensor_of(variable)
    copies: Iterator[Any] = iter(getattr(inner, "values", None) or (inner,))
    return {id(copy.handle) for copy in copies}
