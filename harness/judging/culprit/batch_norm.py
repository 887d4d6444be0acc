"""Statistics of batch normalization that are wrong as they were reported, since each replica keeps its own.

The reference normalises the batch of each replica by itself where the run does, out of sight: no operation of it says
what they should be. Nothing else that is wrong follows from them.
"""

from __future__ import annotations

from harness.evidence.trace import is_statistics
from harness.judging.culprit.alignment import Alignment, OperationNode

__all__ = ["separate_statistics"]


def separate_statistics(aligned: Alignment) -> OperationNode | None:
    """The first operation by which replicas give their copies of such a variable unlike values."""
    given: dict[str, set[tuple[int, ...]]] = {}
    found: dict[str, OperationNode] = {}
    for client, side in enumerate(aligned.sides):
        for op in side.assigning():
            node = OperationNode(client, op.number)
            if is_statistics(op.variable) and node not in aligned.truths:
                values = tuple(taken.digest for tensor in op.inputs if tensor for taken in side.taken(tensor))
                given.setdefault(op.variable, set()).add(values)
                found.setdefault(op.variable, node)
    return next((node for name, node in found.items() if len(given[name]) > 1), None)
