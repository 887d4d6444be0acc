"""Whether two traces of a function for the same kinds of arguments are the same graph.

They are not where a program goes by something that tracing itself changes. It traces anew for each number of examples
that comes along, so all of its graphs have to be the one that is looked at.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from harness.evidence.step_graph import Argument, Graph

__all__ = ["same_arguments", "same_graphs", "traced_anew"]


def traced_anew(function: Any, args: Any, options: Any) -> Any:
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
