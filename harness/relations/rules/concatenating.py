"""Where each of several values begins that are put side by side, which the gradient of that asks for."""

from __future__ import annotations

from fractions import Fraction

from harness.relations.facts import Fact, FactKind
from harness.relations.protocol import GraphStep, rule
from harness.relations.rules.shapes import number, numbers, vector


@rule("ConcatOffset")
def _offsets(step: GraphStep) -> list[Fact]:
    """Of each value zeros, and along the axis how much of the others stands before it."""
    at, *shapes = step.ins
    lengths = [numbers(each) for each in shapes]
    if at.value is None or any(each is None for each in lengths):
        return [step.unknown("where values begin that are put together is not known", ruleless=True)] * len(shapes)
    found, before = [], number(0)
    for own in filter(None, lengths):
        axis = int(at.value.reshape(-1)[0]) % len(own)
        begins = [before if place == axis else number(0) for place in range(len(own))]
        found.append(vector(step, begins, of=shapes))
        following = _added(step, before, own[axis])
        if following is None:
            unknown = step.unknown("examples are told apart by how many stand before them")
            return [*found, *[unknown] * (len(shapes) - len(found))]
        before = following
    return found


def _added(step: GraphStep, one: Fact, other: Fact) -> Fact | None:
    """The sum of two lengths that no number of examples is in; None of others."""
    if one.value is not None and other.value is not None:
        return number(int(one.value) + int(other.value))
    if one.kind is not FactKind.REPLICATED or other.kind is not FactKind.REPLICATED:
        return None
    term = step.terms.made("beside", one.scaled, other.scaled)
    return Fact(FactKind.REPLICATED, term, Fraction(1), shape=(), conditions=one.conditions | other.conditions)
