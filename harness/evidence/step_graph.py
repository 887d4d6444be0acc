"""What tracing a training step has left: its graph as data, with what goes in, what comes out, and who made what.

One file per client process, written before any step is run. Nothing here imports TensorFlow.
"""

from __future__ import annotations

from typing import Any

import msgspec

from harness.evidence.message_file import MessageFile
from harness.evidence.trace import Array
from harness.evidence.watched_step import Frame

SAME_NUMBER = (
    "every batch has as many examples as the first one, since the function cannot be traced for any number of them"
)
"""A condition of a graph in which the number of examples is a constant."""


class GraphNode(msgspec.Struct, frozen=True, array_like=True):
    """One operation of a graph.

    Attributes:
        type: as TensorFlow calls it.
        name: in its graph.
        inputs: of each operand the node, by its number in the graph, and which of its results.
        attributes: those that change what it computes.
        functions: by attribute, such as `body`, the number of the graph that it carries out.
        shapes: of each result, None where the rank is not known; a dimension that is not known is None.
        dtypes: of each result.
        stateful: whether TensorFlow calls it so.
        value: of a constant, as far as it is small.
        digest: of a constant, of all of it.
        caller: the number of the innermost frame that is the program's own.
    """

    type: str
    name: str
    inputs: tuple[tuple[int, int], ...] = ()
    attributes: dict[str, Any] = {}
    functions: dict[str, int] = {}
    shapes: tuple[tuple[int | None, ...] | None, ...] = ()
    dtypes: tuple[str, ...] = ()
    stateful: bool = False
    value: Array | None = None
    digest: int = 0
    caller: int | None = None


class Graph(msgspec.Struct, frozen=True):
    """A function: nodes in the order in which Python made them, its arguments (nodes), its results."""

    nodes: tuple[GraphNode, ...]
    inputs: tuple[int, ...]
    outputs: tuple[tuple[int, int], ...]


class Argument(msgspec.Struct, frozen=True):
    """One argument of the outermost graph.

    `kind` is `example` (rows that an iterator gave), `variable`, `iterator`, `plain` (the same value for everybody) or
    `other`, with the reason in `name`.

    Attributes:
        name: of a variable, the same for all of its copies; of anything else its place among the arguments.
        replica: whose; None if it is everybody's.
        synchronization: of a variable: `plain`, `mirrored` or `on_read`.
        aggregation: of a variable, by TensorFlow's name.
        digest: of a plain value; of examples that of each row.
        rows: how many rows an example had.
        trainable: of a variable.
        source: of an example, of which element of an iterator it is: values of others may have other numbers of rows.
    """

    kind: str
    name: str
    replica: int | None = None
    synchronization: str = "plain"
    aggregation: str = "NONE"
    digest: int = 0
    rows: tuple[int, ...] = ()
    trainable: bool = False
    source: int = 0


class Output(msgspec.Struct, frozen=True):
    """One result of the function: a value for each replica, or a single one; numbers of results of the graph."""

    name: str
    places: tuple[int, ...]
    per_replica: bool = False


class ReportedValue(msgspec.Struct, frozen=True):
    """One value that the program made of stand-ins for the results and reported: a number that follows from it."""

    name: str
    digest: int


class StepGraph(msgspec.Struct, frozen=True):
    """A traced step of one client.

    Attributes:
        graphs: the first is the outermost.
        reported: None if the program ended before it reported anything.
        changed: variables, or what else, that changed outside of the function, in sentences.
        why_not: why there is no graph.
        seconds: that tracing took.
        function: its name.
        by_hand: whether the program distributes its input by hand.
        judged: variables that the program reports.
        pulled: examples that the iterators gave with which the function was called.
        doubts: why nothing follows from the graph, in sentences.
        limits: conditions under which what follows from it holds, in sentences.
        marks: how many changes and how many reports there were when the function was called again, each time.
        cut: whether the program was ended before its own end.
        lengths: of some calls how many rows each example had in each replica of this process.
        others: functions that are called besides, change variables and do not train.
        unlike: the line that gave the devices of a mesh different copies of what the function takes for one tensor,
            empty where it is not known; None if they have equal ones.
    """

    task: str
    replicas: int
    graphs: tuple[Graph, ...] = ()
    frames: tuple[Frame, ...] = ()
    arguments: tuple[Argument, ...] = ()
    outputs: tuple[Output, ...] = ()
    reported: tuple[ReportedValue, ...] | None = None
    changed: tuple[str, ...] = ()
    why_not: str | None = None
    seconds: float = 0.0
    function: str = ""
    by_hand: bool = False
    judged: tuple[str, ...] = ()
    pulled: tuple[Argument, ...] = ()
    doubts: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    marks: tuple[tuple[int, int], ...] = ()
    cut: bool = False
    lengths: tuple[tuple[int | None, ...], ...] = ()
    others: tuple[StepGraph, ...] = ()
    unlike: str | None = None


_FILED = MessageFile(StepGraph)
write_traced, read_traced = _FILED.write, _FILED.read
