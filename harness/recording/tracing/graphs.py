"""Graphs of TensorFlow as data, with the line of the program that made each operation."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from harness.evidence.step_graph import Graph, GraphNode
from harness.evidence.trace import Array
from harness.evidence.watched_step import Frame
from harness.recording.watch.places import LAMBDA

_VALUE_BYTES_MAX = 1 << 10
_CALLED = ("f", "body", "cond", "then_branch", "else_branch")


class GraphRecords:
    """Turns functions into data, each once.

    Args:
        owns: whether a file is the program's own.
        callers: by the names of operations lines that their own stacks do not have.
    """

    def __init__(self, owns: Any, callers: Mapping[str, Frame]) -> None:
        self._owns = owns
        self._callers = callers
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []
        self.graphs: list[Graph | None] = []
        self._frames: dict[Frame, int] = {}

    @property
    def frames(self) -> tuple[Frame, ...]:
        """All lines, by their numbers."""
        return tuple(self._frames)

    def add(self, graph: Any, results: Sequence[Any] | None = None) -> int:
        """The number of a graph; `results` if what it gives is not what TensorFlow says."""
        if id(graph) in self._numbers:
            return self._numbers[id(graph)]
        number = self._numbers[id(graph)] = len(self.graphs)
        self._kept.append(graph)
        self.graphs.append(None)
        operations = graph.get_operations()
        places = {operation.name: at for at, operation in enumerate(operations)}
        definitions = {each.name: each for each in graph.as_graph_def().node}
        nodes = tuple(self._node(graph, each, definitions[each.name], places) for each in operations)
        self.graphs[number] = Graph(
            nodes=nodes,
            inputs=tuple(places[each.op.name] for each in graph.inputs),
            outputs=tuple(
                (places[each.op.name], each.value_index) for each in (graph.outputs if results is None else results)
            ),
        )
        return number

    def _node(self, graph: Any, operation: Any, definition: Any, places: dict[str, int]) -> GraphNode:
        attributes, functions = {}, {}
        for name, value in definition.attr.items():
            which = value.WhichOneof("value")
            if name in _CALLED and which == "func":
                inner = getattr(graph._get_function(value.func.name), "graph", None)  # noqa: SLF001 - nothing public
                if inner is None:
                    raise ValueError(f"the function {value.func.name} has no graph in this process")
                functions[name] = self.add(inner)
            elif which == "func":
                attributes[name] = value.func.name  # of its own in each process, so that it is equal to nothing
            elif not name.startswith("_") and which != "tensor":
                attributes[name] = _plain(value, which)
        value, digest = None, 0
        if operation.type == "Const":
            value, digest = _constant(definition.attr["value"].tensor)
        return GraphNode(
            type=operation.type,
            name=operation.name,
            inputs=tuple((places[each.op.name], each.value_index) for each in operation.inputs),
            attributes=attributes,
            functions=functions,
            shapes=tuple(
                None if each.shape.rank is None else tuple(each.shape.as_list()) for each in operation.outputs
            ),
            dtypes=tuple(each.dtype.name for each in operation.outputs),
            stateful=operation.op_def.is_stateful,
            value=value,
            digest=digest,
            caller=self._caller(operation),
        )

    def _caller(self, operation: Any) -> int | None:
        """The innermost line of the program's own."""
        if (known := self._callers.get(operation.name)) is not None:
            return self._frames.setdefault(known, len(self._frames))
        for frame in reversed(operation.traceback or ()):
            if self._owns(frame.filename):
                made = Frame(frame.filename, frame.lineno, frame.name or LAMBDA, own=True)
                return self._frames.setdefault(made, len(self._frames))
        return None


def _constant(tensor: Any) -> tuple[Array | None, int]:
    import numpy as np
    from tensorflow.python.framework import tensor_util

    array = np.asarray(tensor_util.MakeNdarray(tensor))
    digest = zlib.crc32(array.tobytes() if array.dtype.kind != "O" else repr(array.tolist()).encode())
    if array.nbytes > _VALUE_BYTES_MAX or array.dtype.kind not in "fiub":
        return None, zlib.crc32(repr((array.shape, str(array.dtype))).encode(), digest)
    return Array.of(array), digest


def _plain(value: Any, which: str | None) -> Any:
    import tensorflow as tf

    if which == "type":
        return tf.dtypes.as_dtype(value.type).name
    if which == "shape":
        return None if value.shape.unknown_rank else [each.size for each in value.shape.dim]
    if which == "s":
        return value.s.decode(errors="replace")
    if which == "list":
        listed = value.list
        if listed.type:
            return [tf.dtypes.as_dtype(each).name for each in listed.type]
        if listed.func:
            return [each.name for each in listed.func]
        if listed.s:
            return [each.decode(errors="replace") for each in listed.s]
        if listed.shape:
            return [None if each.unknown_rank else [one.size for one in each.dim] for each in listed.shape]
        return list(listed.i) or list(listed.f) or list(listed.b) or []
    return None if which is None else getattr(value, which)
