"""Sums, means and other reductions: over the examples a sum is partial, and a mean is R times as much, if even."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from harness.relations.facts import Fact, FactKind
from harness.relations.protocol import GraphStep, rule
from harness.relations.terms import ONE


def axes_of(step: GraphStep, given: Fact, position: int = 1) -> tuple[int, ...] | None:
    """The axes that an operand names, from 0, or None if they are not known."""
    value = step.constant(position)
    if value is None or given.rank is None:
        return None
    axes = {int(each) % given.rank if given.rank else 0 for each in value.reshape(-1)}
    return tuple(sorted(axes))


def _keeps(step: GraphStep) -> bool:
    return bool(step.node.attributes.get("keep_dims"))


def _moved(axis: int, axes: tuple[int, ...], *, keeps: bool) -> int:
    """Where an axis is after others have gone."""
    return axis if keeps else axis - sum(each < axis for each in axes)


def _reduced(step: GraphStep, scaled: Any, axes: tuple[int, ...] | None) -> Fact | None:
    """Where no sum over examples is made; None where one is."""
    given = step.ins[0]
    if axes is None:
        if step.all_replicated():
            return step.replicated(scaled)
        return step.unknown("the axes are not known", ruleless=True)
    if given.kind is FactKind.REPLICATED:
        return step.replicated(scaled)
    if given.kind is FactKind.SPLIT and given.axis not in axes:
        return step.split(scaled, _moved(given.axis, axes, keeps=_keeps(step)), rows=given.rows)
    return None


def _linear(step: GraphStep, axes: tuple[int, ...] | None) -> tuple[Fraction, int]:
    given = step.ins[0]
    inner = (Fraction(1), given.term)
    if axes is None:
        return given.scale, step.term(inner, step.ins[1])
    return given.scale, step.term(inner, also=(axes, step.shape_of(given)))


def _whole(step: GraphStep, axes: tuple[int, ...] | None) -> tuple[Fraction, int]:
    """With its factor, for rounding is not linear."""
    if axes is None:
        return step.once(*step.ins)
    return step.once(step.ins[0], also=(axes, step.shape_of(step.ins[0])))


@rule("Sum", "Mean")
def _sum(step: GraphStep) -> Fact:
    given = step.ins[0]
    if given.shape == ():
        return given
    axes = axes_of(step, given)
    if step.node.type == "Sum" and _is_of_nothing(given, axes):
        return step.replicated((Fraction(0), ONE))
    rounded = step.node.type == "Mean" and step.is_integer()
    scaled = _linear(step, axes) if not rounded else _whole(step, axes)
    if axes == () and given.kind in (FactKind.SPLIT, FactKind.REPLICATED, FactKind.PARTIAL):
        return given
    if (found := _reduced(step, scaled, axes)) is not None:
        return found
    if given.kind is FactKind.STACKED:
        return _of_stacked(step, given)
    if rounded:
        return step.unknown("a mean of whole numbers, which is rounded in each replica")
    if given.kind is FactKind.PARTIAL:
        return step.partial(scaled)
    if given.kind is not FactKind.SPLIT:
        return step.unknown("a sum that means nothing for all replicas together")
    if step.node.type == "Sum":
        return step.partial(scaled)
    # Each replica divides by the number of its own examples, which is the Rth part of all.
    return step.partial((scaled[0] * step.replicas, scaled[1]), also=[step.even()])


def _is_of_nothing(given: Fact, axes: tuple[int, ...] | None) -> bool:
    """Whether a sum is over an axis that has no element, be there examples or not, such as an empty list of losses."""
    empty = given.shape is not None and any(given.shape[axis] == 0 for axis in axes or ())
    if given.kind is FactKind.SPLIT:
        return empty and given.axis in (axes or ()) and given.shape is not None and given.shape[given.axis] is None
    return empty and given.kind in (FactKind.REPLICATED, FactKind.PARTIAL)


def _of_stacked(step: GraphStep, given: Fact) -> Fact:
    """Over one value of each replica: what a program does that reduces by hand."""
    inner, value = given.inner, step.constant(1)
    if (
        inner is None
        or value is None
        or given.rank is None
        or value.size != 1
        or int(value.reshape(-1)[0]) % given.rank
    ):
        return step.unknown("the replicas' values are joined in another way than by adding them up")
    if _keeps(step):
        return step.unknown("the replicas' values are joined in another way than by adding them up", ruleless=True)
    count = Fraction(step.replicas)
    total = inner.scale if inner.kind in (FactKind.PARTIAL, FactKind.ROWS) else inner.scale * count
    if inner.kind not in (FactKind.PARTIAL, FactKind.ROWS, FactKind.REPLICATED):
        return step.unknown("values of replicas that are no parts of a sum are added up")
    if step.node.type == "Mean" and step.is_integer() and inner.kind is not FactKind.REPLICATED:
        return step.unknown("a mean of whole numbers is rounded")
    return step.replicated((total if step.node.type == "Sum" else total / count, inner.term), of=(given,))


@rule("Max", "Min", "Prod", "All", "Any", "EuclideanNorm", "ArgMax", "ArgMin", "LogSumExp")
def _other(step: GraphStep) -> Fact:
    given = step.ins[0]
    axes = axes_of(step, given)
    if given.kind is FactKind.SHAPE:
        return _of_numbers(step, given)
    if given.kind is FactKind.STACKED and step.node.type in ("Max", "Min") and axes == (0,) and step.shape() == ():
        return replace(given, kind=FactKind.EXTREME, shape=())
    scaled = _whole(step, axes)
    if (found := _reduced(step, scaled, axes)) is not None:
        return found
    return step.unknown(
        "of the replica's own examples only"
        if given.kind is FactKind.SPLIT
        else "it is not linear, and given parts of a sum"
    )


def _of_numbers(step: GraphStep, given: Fact) -> Fact:
    """A product of lengths, of which at most one counts examples, and the others are the same for everybody."""
    counting = [each for each in given.parts if each.kind is FactKind.ROWS]
    if not step.all_replicated(each for each in given.parts if each.kind is not FactKind.ROWS):
        return step.unknown("a product of parts of a sum")
    if step.node.type != "Prod" or len(counting) > 1 or step.shape() != ():
        return step.unknown("it depends on how many examples the replica has")
    product = step.terms.multiplied([each.scaled for each in given.parts])
    if not counting:
        return step.replicated(product)
    if all(each.kind is FactKind.ROWS or each.value is not None for each in given.parts) and product[0] > 0:
        return step.fact(FactKind.ROWS, product)
    return step.partial(product)


@rule("L2Loss")
def _half_square(step: GraphStep) -> Fact:
    (given,) = step.ins
    scaled = given.scale**2, step.term((Fraction(1), given.term), also=step.shape_of(given))
    if given.kind is FactKind.REPLICATED:
        return step.replicated(scaled)
    if given.kind is FactKind.SPLIT:
        return step.partial(scaled)
    return step.unknown("a square of a part of a sum over the replicas")


@rule("Cumsum", "Cumprod", "CumulativeLogsumexp")
def _running(step: GraphStep) -> Fact:
    given = step.ins[0]
    axes = axes_of(step, given)
    if step.all_replicated():
        return step.replicated(step.once(*step.ins))
    if axes is not None and given.kind is FactKind.SPLIT and given.axis not in axes:
        return step.split(step.once(given, also=axes), given.axis, rows=given.rows)
    if axes is not None and given.kind is FactKind.PARTIAL and step.node.type == "Cumsum":
        return step.partial((given.scale, step.term((Fraction(1), given.term), also=axes)))
    return step.unknown("one after another over the replica's own examples")


# Along the last axis, each row of it by itself.
@rule("Softmax", "LogSoftmax", "TopKV2", "InTopKV2")
def _along_the_last(step: GraphStep) -> list[Fact]:
    given = step.ins[0]
    count = max(1, len(step.node.shapes))
    if step.all_replicated():
        return [step.replicated(step.once(*step.ins, output=at), output=at) for at in range(count)]
    others = all(each.kind is FactKind.REPLICATED for each in step.ins[1:])
    if given.kind is FactKind.SPLIT and given.rank is not None and given.axis < given.rank - 1 and others:
        return [
            step.split(step.once(*step.ins, output=at), given.axis, rows=given.rows, output=at) for at in range(count)
        ]
    return [step.unknown("among the replica's own examples, or of parts of a sum")] * count


@rule("SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits")
def _cross_entropy(step: GraphStep) -> list[Fact]:
    """Of each example a loss and a gradient."""
    logits = step.ins[0]
    if step.all_replicated():
        return [step.replicated(step.once(*step.ins, output=at), output=at) for at in range(2)]
    fine = all(each.kind is FactKind.SPLIT and each.axis == 0 for each in step.ins)
    if fine and logits.rank == 2:
        alike = step.alike_long()
        return [
            step.split(step.once(*step.ins, output=at), 0, rows=logits.rows, output=at, also=alike) for at in range(2)
        ]
    return [step.unknown("a loss of something else than the replica's examples")] * 2
