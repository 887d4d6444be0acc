"""Gathers and their gradients: a table that everybody has, looked up for each example; sums by an index."""

from __future__ import annotations

from fractions import Fraction

from harness.relations.facts import Fact, FactKind
from harness.relations.protocol import GraphStep, rule


@rule("GatherV2", "Gather", "ResourceGather")
def _gather(step: GraphStep) -> Fact:
    """Rows of a table by the examples' numbers, or for all examples the same columns."""
    table, index = step.ins[0], step.ins[1]
    if step.node.attributes.get("batch_dims"):
        return _gather_in_rows(step, table, index)
    axis = 0
    if step.node.type == "GatherV2":
        if (at := step.constant(2)) is None or table.rank is None:
            if step.all_replicated():
                return step.replicated(step.once(*step.ins))
            return step.unknown("an axis that is not known", ruleless=True)
        axis = int(at.reshape(-1)[0]) % max(1, table.rank)
    if table.kind is FactKind.SHAPE and index.value is not None and index.value.ndim == 0:
        return table.parts[int(index.value)]
    if table.kind is FactKind.SHAPE and index.value is not None and index.value.ndim == 1:
        from harness.relations.rules.shapes import vector

        return vector(step, [table.parts[int(each)] for each in index.value])
    # From a variable or from what was read of it, by whichever operation: it is the same.
    scaled = table.scale, step.terms.made("gathered", table.term, index.scaled, axis)
    if table.kind in (FactKind.REPLICATED, FactKind.PARTIAL) and index.kind is FactKind.REPLICATED:
        return step.like(table, scaled)
    if table.kind is FactKind.REPLICATED and index.kind is FactKind.SPLIT:
        return step.split(scaled, axis + index.axis, rows=index.rows)
    if table.kind is FactKind.SPLIT and index.kind is FactKind.REPLICATED and table.axis != axis:
        moved = table.axis if table.axis < axis else table.axis + (index.rank or 0) - 1
        if index.rank is not None:
            return step.split(scaled, moved, rows=table.rows)
    return step.unknown("the replica's own examples are picked by their place")


def _gather_in_rows(step: GraphStep, table: Fact, index: Fact) -> Fact:
    """From each example what its own numbers say."""
    if step.all_replicated():
        return step.replicated(step.once(*step.ins))
    count = int(step.node.attributes["batch_dims"])
    rows = (table, index)
    at = step.constant(2)
    split = all(each.kind is FactKind.SPLIT and each.axis == 0 for each in rows)
    if split and count >= 1 and at is not None and table.rank and int(at.reshape(-1)[0]) % table.rank >= count:
        return step.split((table.scale, step.term((Fraction(1), table.term), *step.ins[1:])), 0, rows=table.rows)
    return step.unknown("the replica's own examples are picked by their place")


@rule("UnsortedSegmentSum")
def _sum_by_index(step: GraphStep) -> Fact:
    """As the gradient of a gather: a sum over examples is a part."""
    data, index, count = step.ins
    scaled = data.scale, step.term((Fraction(1), data.term), index, count)
    if step.all_replicated():
        return step.replicated(scaled)
    split = data.kind is index.kind is FactKind.SPLIT and data.axis == index.axis
    if split and count.kind is FactKind.REPLICATED and index.rank is not None and index.axis < index.rank:
        return step.partial(scaled)
    if count.kind is FactKind.REPLICATED and data.kind is FactKind.PARTIAL and index.kind is FactKind.REPLICATED:
        return step.partial(scaled)
    return step.unknown("a sum by an index that means nothing for all replicas together")


@rule("ScatterNd")
def _scatter(step: GraphStep) -> Fact:
    index, data, shape = step.ins
    scaled = data.scale, step.term(index, (Fraction(1), data.term), shape)
    if step.all_replicated():
        return step.replicated(scaled)
    if shape.kind is FactKind.REPLICATED and index.kind is data.kind is FactKind.SPLIT and index.axis == data.axis == 0:
        return step.partial(scaled)
    return step.unknown("a sum by an index that means nothing for all replicas together")
