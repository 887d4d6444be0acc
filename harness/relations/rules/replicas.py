"""Where values of replicas come together: what each has is a part of a sum, a share of the rows, or the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from harness.relations.facts import Fact, FactKind
from harness.relations.protocol import GraphStep, rule


def everywhere(given: Fact) -> Fact:
    """A value that follows from those of all replicas: what one of them needs for itself, all of them need of it."""
    return replace(given, conditions=frozenset(replace(each, everywhere=True) for each in given.conditions))


def _total(given: Fact, replicas: int) -> Fraction | None:
    """How many times the term all replicas' values are together."""
    if given.kind in (FactKind.PARTIAL, FactKind.ROWS):
        return given.scale
    return given.scale * replicas if given.kind is FactKind.REPLICATED else None


@rule("CollectiveReduceV2", "CollectiveReduceV3", "CollectiveReduce", "NcclAllReduce")
def _reduced(step: GraphStep) -> Fact:
    """A sum over all replicas; that all of them take part is checked where the graph is at its end."""
    given = everywhere(step.ins[0])
    merge = step.node.attributes.get("merge_op") or step.node.attributes.get("reduction")
    final = step.node.attributes.get("final_op", "Id")
    total = _total(given, step.replicas)
    if step.node.type != "NcclAllReduce" and len(step.ins) > 1 and step.node.type != "CollectiveReduce":
        size = step.constant(1)
        if size is None or int(size.reshape(-1)[0]) != step.replicas:
            return step.unknown("a sum over some of the replicas only")
    if merge not in ("Add", "sum") or final not in ("Id", "Div"):
        if given.kind is FactKind.REPLICATED and merge in ("Max", "Min"):
            return step.replicated(given.scaled, of=(given,))
        return step.unknown(f"the replicas' values are joined by {merge}, then {final}", ruleless=True)
    if total is None:
        return step.unknown("what the replicas add up are no parts of a sum")
    if final == "Div" and step.is_integer() and given.kind is not FactKind.REPLICATED:
        return step.unknown("a sum of whole numbers is divided by the replicas, and rounded")
    return step.replicated((total / step.replicas if final == "Div" else total, given.term), of=(given,))


@rule("CollectiveGatherV2", "CollectiveGather")
def _gathered(step: GraphStep) -> Fact:
    given = everywhere(step.ins[0])
    if given.kind is FactKind.SPLIT and given.axis == 0:
        return step.replicated(given.scaled, of=(given,))
    if given.kind is FactKind.SHAPE and len(given.parts) == 1 and given.parts[0].kind is FactKind.ROWS:
        return Fact(FactKind.STACKED, shape=step.shape(), inner=given.parts[0], conditions=given.conditions)
    return step.unknown("the replicas' values are put next to each other, and are no rows of a batch")


def met(step: GraphStep) -> Fact | None:
    """One operation that is given values of several replicas; None if it is nothing special.

    Whatever they do to have their values, they have to do the same.
    """
    kind = step.node.type
    given: Sequence[Fact] = step.ins[:-1] if kind == "ConcatV2" else step.ins
    if kind == "AddN" or kind in ("Add", "AddV2", "Pack", "ConcatV2"):
        in_order = [each.replicas for each in given] == [frozenset({at}) for at in range(step.replicas)]
        alike = len({each.local for each in given}) == 1 and given[0].kind is not FactKind.UNKNOWN
        if in_order and alike:
            return _joined(step, given[0])
    if step.all_replicated():
        return None
    return step.unknown("values of several replicas meet in another way than in a sum over all of them")


def _joined(step: GraphStep, given: Fact) -> Fact:
    given = everywhere(given)
    kind, total = step.node.type, _total(given, step.replicas)
    if kind == "ConcatV2":
        at = step.constant(len(step.ins) - 1)
        if (
            given.kind is FactKind.SPLIT
            and at is not None
            and given.rank
            and int(at.reshape(-1)[0]) % given.rank == given.axis
        ):
            return step.replicated(given.scaled, of=(given,))
        if given.kind is FactKind.REPLICATED:
            return step.replicated(step.once(*step.ins), of=(given,))
        return step.unknown("the replicas' values are put next to each other, and are no rows of a batch")
    if kind == "Pack":
        if int(step.node.attributes.get("axis", 0) or 0) == 0:
            return Fact(FactKind.STACKED, shape=step.shape(), inner=given, conditions=given.conditions)
        return step.unknown("the replicas' values are put next to each other", ruleless=True)
    if total is None:
        return step.unknown("what the replicas add up are no parts of a sum")
    return replace(step.replicated((total, given.term), of=(given,)), replicas=frozenset())
