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
    for graph in (graph for client in clients for graph in client.graphs):
        drawing = sorted({node.type for node in graph.nodes} & DRAWING)
        if drawing:
            yield f"random numbers depend on the layouts of a mesh: {', '.join(drawing)}"
        if _reads_what_it_wrote(graph):
            yield (
                "a variable is read after it was written, and TensorFlow may give the old value on a mesh "
                "(DTENSOR_ENABLE_COMBINE_ALL_REDUCES_OPTIMIZATION=0 cures that): numbers have to decide"
            )
    if len(clients) > 1:
        yield "each client has a graph of its own, and may give the mesh what is no part of one batch"


def _reads_what_it_wrote(graph: Graph) -> bool:
    written: set[tuple[int, int]] = set()
    for node in graph.nodes:
        if not node.inputs:
            continue
        if node.type in _READS and node.inputs[0] in written:
            return True
        if node.type.startswith(_CHANGES):
            written.add(node.inputs[0])
    return False
