"""Normalisation by statistics: of each example by itself, by what everybody has, or by a batch that is only a part."""

from __future__ import annotations

from fractions import Fraction

from harness.relations.facts import Fact, FactKind
from harness.relations.protocol import GraphStep, rule

_FUSED = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")


@rule(*_FUSED)
def _normalised(step: GraphStep) -> list[Fact]:
    count = len(step.node.shapes)
    if step.all_replicated():
        return [step.replicated(step.once(*step.ins, output=at), output=at) for at in range(count)]
    if step.node.attributes.get("is_training", True):
        return [step.unknown("statistics of the replica's own examples only")] * count
    rows = step.ins[0]
    if rows.kind is FactKind.SPLIT and rows.axis == 0 and step.all_replicated(step.ins[1:]):
        first = step.split(step.once(*step.ins), 0, rows=rows.rows)
        others = [step.unknown("statistics beside an inference", ruleless=True)] * (count - 1)
        return [first, *others]
    return [step.unknown("statistics that mean nothing for all replicas together")] * count


@rule("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3")
def _normalised_back(step: GraphStep) -> list[Fact]:
    """Of an inference: linear in the gradient, and summed over examples for scale and offset."""
    count = len(step.node.shapes)
    if step.all_replicated():
        return [step.replicated(step.once(*step.ins, output=at), output=at) for at in range(count)]
    gradient, rows = step.ins[0], step.ins[1]
    fine = gradient.kind is rows.kind is FactKind.SPLIT and gradient.axis == rows.axis == 0
    if step.node.attributes.get("is_training", True) or not fine or not step.all_replicated(step.ins[2:5]):
        return [step.unknown("statistics of the replica's own examples only")] * count
    used = ((Fraction(1), gradient.term), *(each.scaled for each in step.ins[1:5]))
    made = [(gradient.scale, step.term(*used, output=at)) for at in range(3)]
    return [
        step.split(made[0], 0, rows=gradient.rows),
        step.partial(made[1], output=1),
        step.partial(made[2], output=2),
        *[step.unknown("nothing", ruleless=True)] * (count - 3),
    ]
