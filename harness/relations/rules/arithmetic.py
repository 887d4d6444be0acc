"""Sums, products and quotients: parts of a sum may be added up, and multiplied by what everybody has."""

from __future__ import annotations

from collections.abc import Sequence

from harness.relations.facts import Fact, FactKind
from harness.relations.protocol import GraphStep, rule
from harness.relations.rules.elementwise import aligned_axis
from harness.relations.terms import ONE, Scaled

_PARTS = (FactKind.PARTIAL, FactKind.ROWS, FactKind.REPLICATED)


def _rows(facts: Sequence[Fact]) -> Scaled | None:
    found = {each.rows for each in facts if each.kind is FactKind.SPLIT}
    return found.pop() if len(found) == 1 else None


def _total(step: GraphStep, values: Sequence[Scaled]) -> Scaled:
    """A sum; where zeros that have gone out of it may have made its shape, with that shape as a term of its own."""
    total = step.terms.added(values)
    left = step.terms.summands(total[1]) if total[0] else set()
    gone = {part for _, term in values for part in step.terms.summands(term)} - left - {ONE}
    if not total[0] or not gone or step.shape() == ():
        return total
    rows = next((each.axis - len(each.shape or ()) for each in step.ins if each.kind is FactKind.SPLIT), None)
    shape = step.shape()
    place = None if rows is None or shape is None else len(shape) + rows
    whole = shape is not None and all(length is not None or axis == place for axis, length in enumerate(shape))
    if whole and any(_is_as_large(step, each, place) and step.terms.summands(each.term) <= left for each in step.ins):
        return total
    return total[0], step.terms.made("spread", total[1], step.seen_shape(shape, place))


def _is_as_large(step: GraphStep, given: Fact, place: int | None) -> bool:
    """Whether an operand has the shape of the result, the examples included."""
    if place is None or given.kind is FactKind.SPLIT:
        return step.shape_of(given) == step.seen_shape(step.shape(), place)
    return False


def _added(step: GraphStep, factors: Sequence[int]) -> Fact:
    values = [(factor * each.scale, each.term) for factor, each in zip(factors, step.ins, strict=True)]
    if step.all_replicated():
        return step.replicated(_total(step, values))
    if FactKind.SPLIT in step.kinds:
        if any(kind not in (FactKind.SPLIT, FactKind.REPLICATED) for kind in step.kinds):
            return step.unknown("parts of a sum over the replicas are added to rows of the batch")
        if (axis := aligned_axis(step)) is None:
            return step.unknown("the examples lie along different axes")
        return step.split(_total(step, values), axis, rows=_rows(step.ins), also=step.alike_long())
    if any(kind not in _PARTS for kind in step.kinds):
        return step.unknown("these cannot be added")
    if all(kind is FactKind.ROWS for kind in step.kinds) and all(scale > 0 for scale, _ in values):
        return step.fact(FactKind.ROWS, _total(step, values))
    # What everybody has is added by everybody.
    counted = [
        (scale * step.replicas, term) if each.kind is FactKind.REPLICATED else (scale, term)
        for (scale, term), each in zip(values, step.ins, strict=True)
    ]
    return step.partial(_total(step, counted))


@rule("Add", "AddV2", "AddN", "AccumulateNV2")
def _add(step: GraphStep) -> Fact:
    return _added(step, [1] * len(step.ins))


@rule("Sub")
def _subtract(step: GraphStep) -> Fact:
    return _added(step, [1, -1])


@rule("Mul", "MulNoNan")
def _multiply(step: GraphStep) -> Fact:
    """Of a part of a sum and what everybody has a part again; of a count and anything, while shards are even."""
    product = step.terms.multiplied([each.scaled for each in step.ins])
    one, other = step.ins
    kinds = set(step.kinds)
    if kinds == {FactKind.REPLICATED}:
        return step.replicated(product)
    if kinds <= {FactKind.SPLIT, FactKind.REPLICATED}:
        if (axis := aligned_axis(step)) is None:
            return step.unknown("the examples lie along different axes")
        return step.split(product, axis, rows=_rows(step.ins), also=step.alike_long())
    if FactKind.ROWS in kinds:
        counted, given = (one, other) if one.kind is FactKind.ROWS else (other, one)
        if given.kind is FactKind.REPLICATED:
            plain = given.term == ONE and given.scale > 0
            return step.fact(FactKind.ROWS, product) if plain else step.partial(product)
        if given.kind in (FactKind.SPLIT, FactKind.PARTIAL) and counted.shape == ():
            return step.like(given, (product[0] / step.replicas, product[1]), also=[step.even()])
    if kinds == {FactKind.PARTIAL, FactKind.REPLICATED}:
        return step.partial(product)
    return step.unknown("a product of two values of which neither is the same in each replica")


@rule("RealDiv", "DivNoNan")
def _divide(step: GraphStep) -> Fact:
    """By the replica's own number of examples instead of that of all: R times as much, while shards are even."""
    above, below = step.ins
    quotient = step.terms.divided(step.node.type, above.scaled, below.scaled)
    if quotient is None:
        return step.unknown("a division by zero", ruleless=True)
    kinds = {above.kind, below.kind}
    if kinds == {FactKind.REPLICATED}:
        return step.replicated(quotient)
    if below.kind is FactKind.REPLICATED and above.kind is FactKind.PARTIAL:
        return step.partial(quotient)
    if below.kind is FactKind.REPLICATED and above.kind is FactKind.ROWS:
        plain = below.term == ONE and below.scale > 0
        return step.fact(FactKind.ROWS, quotient) if plain else step.partial(quotient)
    if kinds <= {FactKind.SPLIT, FactKind.REPLICATED}:
        if (axis := aligned_axis(step)) is None:
            return step.unknown("the examples lie along different axes")
        return step.split(quotient, axis, rows=_rows(step.ins), also=step.alike_long())
    if below.kind is FactKind.ROWS and below.shape == ():
        if above.kind is FactKind.ROWS and above.term == below.term:
            return step.replicated((above.scale / below.scale, ONE), also=[step.nonempty()])
        larger = (quotient[0] * step.replicas, quotient[1])
        if above.kind is FactKind.ROWS:
            return step.replicated(quotient, also=[step.even()])
        if above.kind in (FactKind.SPLIT, FactKind.REPLICATED, FactKind.PARTIAL):
            return step.like(above, larger, also=[step.even()])
    if below.kind is FactKind.PARTIAL:
        return step.unknown("it is divided by a part of a sum over the replicas")
    return step.unknown("a quotient that means nothing for all replicas together")
