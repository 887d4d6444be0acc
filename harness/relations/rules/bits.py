"""Bits that are read as another dtype: of rows those of rows, and of a part of a sum nothing."""

from __future__ import annotations

from harness.relations.facts import Fact, FactKind
from harness.relations.protocol import GraphStep, rule


@rule("Bitcast")
def _bitcast(step: GraphStep) -> Fact:
    """As an element may become several, or several one, the last axis may come or go: with it no examples may."""
    (given,) = step.ins
    shape = step.shape()
    if step.all_replicated():
        return step.replicated(step.once(given))
    if given.kind is not FactKind.SPLIT:
        return step.unknown("bits of a part of a sum")
    if shape is None or given.rank is None:
        return step.unknown("a shape that is not known", ruleless=True)
    if given.axis >= len(shape):
        return step.unknown("the bits of several examples become one number")
    return step.split(step.once(given), given.axis, rows=given.rows)
