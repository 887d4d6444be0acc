"""Proofs of steps on a mesh: there each operation means what it means for whole tensors, however these are laid out.

So a tensor that is sharded along an axis over an axis of the mesh, or a part of a sum over one, is one value of the
graph, and DTensor moves it where an operation needs it otherwise (`tensorflow/dtensor/mlir/spmd_expander.h`, 2.21).
What is left to prove is that the graph for the mesh is that for one device: no number of devices is built into it. Two
things that the graph has not are left out: random numbers, which depend on layouts, and variables that are read after
they were written, for which TensorFlow may give the old value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.evidence.step_graph import Graph, StepGraph
from harness.relations.rules.drawing import DRAWING

_READS = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd")
_CHANGES = ("Assign", "ResourceApply", "ResourceScatter", "ResourceSparseApply")


def doubts_of_mesh(clients: Sequence[StepGraph]) -> Iterator[str]:
    """Why a step on a mesh may compute otherwise than its graph says."""
    for client in clients:
        drawing = sorted({node.type for graph in client.graphs for node in graph.nodes} & DRAWING)
        if drawing:
            yield f"random numbers depend on the layouts of a mesh: {', '.join(drawing)}"
        if any(_may_read_what_it_wrote(graph, client.graphs) for graph in client.graphs):
            yield (
                "a variable is read after it was written, and TensorFlow may give the old value on a mesh "
                "(DTENSOR_ENABLE_COMBINE_ALL_REDUCES_OPTIMIZATION=0 cures that): numbers have to decide"
            )
    if len(clients) > 1:
        yield "each client has a graph of its own, and may give the mesh what is no part of one batch"


def _may_read_what_it_wrote(graph: Graph, graphs: Sequence[Graph]) -> bool:
    """Whether that may be; of a function that is called it is not looked at which of its handles it reads or writes."""
    written: set[tuple[int, int]] = set()
    for node in graph.nodes:
        handles = {_handle(graph, each) for each in node.inputs}
        changes = node.type.startswith(_CHANGES) or any(_changes(graphs, each) for each in node.functions.values())
        reads = node.type in _READS or bool(node.functions)
        if (reads and handles & written) or (changes and node.type.endswith("While")):
            return True
        if changes:
            written |= handles if node.functions else {_handle(graph, node.inputs[0])}
    return False


def _handle(graph: Graph, operand: tuple[int, int]) -> tuple[int, int]:
    """The operand, or what it is another name of."""
    while graph.nodes[operand[0]].type == "Identity":
        operand = graph.nodes[operand[0]].inputs[0]
    return operand


def _changes(graphs: Sequence[Graph], number: int) -> bool:
    """Whether a function changes a variable, or one that it calls."""
    nodes = graphs[number].nodes
    return any(
        node.type.startswith(_CHANGES) or any(_changes(graphs, each) for each in node.functions.values())
        for node in nodes
    )
