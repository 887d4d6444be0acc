"""Sums, products and quotients: parts of a sum may be added up, and multiplied by what everybody has."""

from __future__ import annotations

from collections.abc import Sequence

from harness.relations.facts import Fact, Kind
from harness.relations.protocol import Step, rule
from harness.relations.rules.elementwise import aligned_axis
from harness.relations.terms import ONE, Scaled

__all__: list[str] = []

_PARTS = (Kind.PARTIAL, Kind.ROWS, Kind.REPLICATED)


def _rows(facts: Sequence[Fact]) -> Scaled | None:
    found = {each.rows for each in facts if each.kind is Kind.SPLIT}
    return found.pop() if len(found) == 1 else None


def _total(step: Step, values: Sequence[Scaled]) -> Scaled:
    """A sum; where zeros that have gone out of it may have made its shape, with that shape as a term of its own."""
    total = step.terms.added(values)
    left = step.terms.summands(total[1]) if total[0] else set()
    gone = {part for _, term in values for part in step.terms.summands(term)} - left - {ONE}
    if not total[0] or not gone or step.shape() == ():
        return total
    rows = next((each.axis - len(each.shape or ()) for each in step.ins if each.kind is Kind.SPLIT), None)
    shape = step.shape()
    place = None if rows is None or shape is None else len(shape) + rows
    whole = shape is not None and all(length is not None or axis == place for axis, length in enumerate(shape))
    if whole and any(_is_as_large(step, each, place) and step.terms.summands(each.term) <= left for each in step.ins):
        return total
    return total[0], step.terms.made("spread", total[1], step.seen_shape(shape, place))


def _is_as_large(step: Step, given: Fact, place: int | None) -> bool:
    """Whether an operand has the shape of the result, the examples included."""
    if place is None or given.kind is Kind.SPLIT:
        return step.shape_of(given) == step.seen_shape(step.shape(), place)
    return False


def _added(step: Step, factors: Sequence[int]) -> Fact:
    values = [(factor * each.scale, each.term) for factor, each in zip(factors, step.ins, strict=True)]
    if step.all_replicated():
        return step.replicated(_total(step, values))
    if Kind.SPLIT in step.kinds:
        if any(kind not in (Kind.SPLIT, Kind.REPLICATED) for kind in step.kinds):
            return step.unknown("parts of a sum over the replicas are added to rows of the batch")
        if (axis := aligned_axis(step)) is None:
            return step.unknown("the examples lie along different axes")
        return step.split(_total(step, values), axis, rows=_rows(step.ins), also=step.alike_long())
    if any(kind not in _PARTS for kind in step.kinds):
        return step.unknown("these cannot be added")
    if all(kind is Kind.ROWS for kind in step.kinds) and all(scale > 0 for scale, _ in values):
        return step.fact(Kind.ROWS, _total(step, values))
    # What everybody has is added by everybody.
    counted = [
        (scale * step.replicas, term) if each.kind is Kind.REPLICATED else (scale, term)
        for (scale, term), each in zip(values, step.ins, strict=True)
    ]
    return step.partial(_total(step, counted))


@rule("Add", "AddV2", "AddN", "AccumulateNV2")
def _add(step: Step) -> Fact:
    return _added(step, [1] * len(step.ins))


@rule("Sub")
def _subtract(step: Step) -> Fact:
    return _added(step, [1, -1])


@rule("Mul", "MulNoNan")
def _multiply(step: Step) -> Fact:
    """Of a part of a sum and what everybody has a part again; of a count and anything, while shards are even."""
    product = step.terms.multiplied([each.scaled for each in step.ins])
    one, other = step.ins
    kinds = set(step.kinds)
    if kinds == {Kind.REPLICATED}:
        return step.replicated(product)
    if kinds <= {Kind.SPLIT, Kind.REPLICATED}:
        if (axis := aligned_axis(step)) is None:
            return step.unknown("the examples lie along different axes")
        return step.split(product, axis, rows=_rows(step.ins), also=step.alike_long())
    if Kind.ROWS in kinds:
        counted, given = (one, other) if one.kind is Kind.ROWS else (other, one)
        if given.kind is Kind.REPLICATED:
            plain = given.term == ONE and given.scale > 0
            return step.fact(Kind.ROWS, product) if plain else step.partial(product)
        if given.kind in (Kind.SPLIT, Kind.PARTIAL) and counted.shape == ():
            return step.like(given, (product[0] / step.replicas, product[1]), also=[step.even()])
    if kinds == {Kind.PARTIAL, Kind.REPLICATED}:
        return step.partial(product)
    return step.unknown("a product of two values of which neither is the same in each replica")


@rule("RealDiv", "DivNoNan")
def _divide(step: Step) -> Fact:
    """By the replica's own number of examples instead of that of all: R times as much, while shards are even."""
    above, below = step.ins
    quotient = step.terms.divided(step.node.type, above.scaled, below.scaled)
    if quotient is None:
        return step.unknown("a division by zero", ruleless=True)
    kinds = {above.kind, below.kind}
    if kinds == {Kind.REPLICATED}:
        return step.replicated(quotient)
    if below.kind is Kind.REPLICATED and above.kind is Kind.PARTIAL:
        return step.partial(quotient)
    if below.kind is Kind.REPLICATED and above.kind is Kind.ROWS:
        plain = below.term == ONE and below.scale > 0
        return step.fact(Kind.ROWS, quotient) if plain else step.partial(quotient)
    if kinds <= {Kind.SPLIT, Kind.REPLICATED}:
        if (axis := aligned_axis(step)) is None:
            return step.unknown("the examples lie along different axes")
        return step.split(quotient, axis, rows=_rows(step.ins), also=step.alike_long())
    if below.kind is Kind.ROWS and below.shape == ():
        if above.kind is Kind.ROWS and above.term == below.term:
            return step.replicated((above.scale / below.scale, ONE), also=[step.nonempty()])
        larger = (quotient[0] * step.replicas, quotient[1])
        if above.kind is Kind.ROWS:
            return step.replicated(quotient, also=[step.even()])
        if above.kind in (Kind.SPLIT, Kind.REPLICATED, Kind.PARTIAL):
            return step.like(above, larger, also=[step.even()])
    if below.kind is Kind.PARTIAL:
        return step.unknown("it is divided by a part of a sum over the replicas")
    return step.unknown("a quotient that means nothing for all replicas together")
