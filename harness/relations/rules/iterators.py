"""Iterators that may be at their end: a replica for which nothing is left gets no rows, which is a share, too."""

from __future__ import annotations

from harness.relations.facts import Fact, FactKind
from harness.relations.protocol import GraphStep, rule

# By which a strategy finds out how many replicas have got something.
_COUNTED = [
    "Any",
    "All",
    "Cast",
    "Equal",
    "ExpandDims",
    "Greater",
    "GreaterEqual",
    "Identity",
    "LogicalAnd",
    "LogicalNot",
    "LogicalOr",
    "Max",
    "Pack",
    "Reshape",
    "Squeeze",
    "StopGradient",
    "Sum",
    "ConcatV2",
    "CollectiveReduceV2",
    "CollectiveGatherV2",
    "AddN",
    "SplitV",
]


def only_present(step: GraphStep) -> bool:
    """Whether an operation does no more than count who has examples."""
    if FactKind.PRESENT not in step.kinds:  # as almost always
        return False
    return step.node.type in _COUNTED and all(
        each.kind is FactKind.PRESENT or each.value is not None or each.term == step.terms.made("token")
        for each in step.ins
    )


@rule("OptionalHasValue")
def _has_value(step: GraphStep) -> Fact:
    if step.ins[0].kind is FactKind.OPTIONAL:
        return Fact(FactKind.PRESENT, shape=(), replicas=step.ins[0].replicas)
    return step.unknown("an optional that no iterator has given", ruleless=True)


@rule("OptionalGetValue")
def _value(step: GraphStep) -> list[Fact]:
    if step.ins[0].kind is FactKind.OPTIONAL:
        return list(step.ins[0].parts)
    return [step.unknown("an optional that no iterator has given", ruleless=True)] * len(step.node.shapes)


@rule("OptionalFromValue")
def _from_values(step: GraphStep) -> Fact:
    return Fact(FactKind.OPTIONAL, shape=(), parts=step.ins)
