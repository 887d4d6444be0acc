"""Which operations change variables, and which variables a graph may change."""

from __future__ import annotations

from typing import Any


def assigns(kind: str) -> bool:
    """Whether operations of this type change a variable."""
    return "Assign" in kind or kind.startswith(("ResourceApply", "ResourceSparseApply", "ResourceScatter"))


def changes(graph: Any) -> bool:
    """Whether a graph, or one that it carries out, changes a variable."""
    definition = graph.as_graph_def()
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    return any(assigns(node.op) for node in nodes)


def changed_by(graph: Any) -> list[Any]:
    """Handles of the variables that a graph may change: what it assigns to, and what it hands on to other graphs."""
    import tensorflow as tf

    found = []
    for outer, inner in graph.captures:
        if inner.dtype != tf.resource or outer.dtype != tf.resource:
            continue
        readers = inner.consumers()
        if any(assigns(reader.type) or _carries_out(reader) for reader in readers):
            found.append(outer)
    return found


def _carries_out(operation: Any) -> bool:
    """Whether it carries out another graph."""
    return any(attribute.HasField("func") for attribute in operation.node_def.attr.values())
