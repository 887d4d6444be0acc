"""Shapes, and operations that move elements: how many rows a replica has is followed as a number of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from harness.relations.facts import Fact, FactKind, ProofCondition
from harness.relations.protocol import GraphStep, rule
from harness.relations.terms import ONE, Scaled


def number(value: int) -> Fact:
    """A plain whole number."""
    import numpy as np

    return Fact(FactKind.REPLICATED, ONE, Fraction(value), shape=(), value=np.asarray(value))


def vector(step: GraphStep, parts: Sequence[Fact], *, of: Sequence[Fact] | None = None) -> Fact:
    """Whole numbers in a row; a constant if they all are."""
    import numpy as np

    if any(each.kind not in (FactKind.ROWS, FactKind.REPLICATED) for each in parts):
        return step.unknown("a part of a sum stands among numbers")
    given = step.ins if of is None else of
    conditions = frozenset[ProofCondition]().union(*(each.conditions for each in (*given, *parts)))
    shape = (len(parts),)
    scaled = step.terms.made("vector", tuple(each.scaled for each in parts))
    common = {"shape": shape, "conditions": conditions, "parts": tuple(parts)}
    if all(_is_whole(each) for each in parts):
        values = np.asarray([int(each.value) for each in parts], dtype=np.int64)
        return Fact(FactKind.REPLICATED, constant(step, values), value=values, shape=shape, conditions=conditions)
    if all(each.kind is FactKind.REPLICATED for each in parts):
        return Fact(FactKind.REPLICATED, scaled, **common)  # type: ignore[arg-type]
    return Fact(FactKind.SHAPE, scaled, **common)  # type: ignore[arg-type]


def _is_whole(given: Fact) -> bool:
    """Whether it is a whole number that is known."""
    return given.value is not None and given.value.dtype.kind in "iu"


def constant(step: GraphStep, value: object) -> int:
    """The term of an array that is known; the same whatever its dtype."""
    import numpy as np

    array = np.asarray(value)
    return step.terms.made("array", array.shape, tuple(array.reshape(-1).tolist()))


def lengths(step: GraphStep, given: Fact) -> list[Fact] | None:
    """The length of each axis of an operand."""
    if given.shape is None:
        return None
    found = []
    conditions = of_length(given)
    for axis, length in enumerate(given.shape):
        if given.kind is FactKind.SPLIT and axis == given.axis:
            rows = given.rows or (Fraction(1), step.terms.made("length", given.term, axis))
            found.append(Fact(FactKind.ROWS, rows[1], rows[0], shape=()))
        elif length is not None:
            found.append(number(length))
        else:
            found.append(Fact(FactKind.REPLICATED, step.terms.made("length", given.term, axis), shape=()))
    return [replace(each, conditions=conditions) for each in found] if conditions else found


def of_length(given: Fact) -> frozenset[ProofCondition]:
    """What has to be so for an operand to be as long as it is said to be."""
    return frozenset(each for each in given.conditions if each.length)


def numbers(given: Fact) -> list[Fact] | None:
    """What a vector of whole numbers has in it."""
    if _is_whole(given) and given.value.ndim == 1:
        return [replace(number(int(each)), conditions=given.conditions) for each in given.value]
    return list(given.parts) if given.parts else None


@rule("Shape")
def _shape(step: GraphStep) -> Fact:
    return _lengths(step, step.ins[0])


@rule("ShapeN")
def _shapes(step: GraphStep) -> list[Fact]:
    return [_lengths(step, each) for each in step.ins]


def _lengths(step: GraphStep, given: Fact) -> Fact:
    parts = lengths(step, given)
    if parts is None or given.kind not in (
        FactKind.SPLIT,
        FactKind.REPLICATED,
        FactKind.PARTIAL,
        FactKind.ROWS,
        FactKind.SHAPE,
    ):
        return step.unknown("the rank is not known", ruleless=True)
    return vector(step, parts, of=())


@rule("Size")
def _size(step: GraphStep) -> Fact:
    parts = lengths(step, step.ins[0])
    if parts is None:
        return step.unknown("the rank is not known", ruleless=True)
    counting = [each for each in parts if each.kind is FactKind.ROWS]
    product = step.terms.multiplied([each.scaled for each in parts])
    if not counting:
        return step.replicated(product, of=parts)
    if all(each.kind is FactKind.ROWS or each.value is not None for each in parts) and product[0] > 0:
        return step.fact(FactKind.ROWS, product, of=parts)
    return step.partial(product, of=parts)


@rule("BroadcastGradientArgs")
def _broadcast_axes(step: GraphStep) -> list[Fact]:
    """Over which axes the gradients of two operands are to be summed."""
    import numpy as np

    one, other = (numbers(each) for each in step.ins)
    if one is None or other is None:
        return [step.unknown("the shapes are not known", ruleless=True)] * 2
    rank = max(len(one), len(other))
    found: tuple[list[int], list[int]] = ([], [])
    for axis in range(rank):
        pair = [given[axis - rank] if axis - rank >= -len(given) else None for given in (one, other)]
        ones = [each is None or (each.value is not None and int(each.value) == 1) for each in pair]
        if ones[0] != ones[1]:
            found[0 if ones[0] else 1].append(axis)
        elif all(ones):
            found[0].append(axis)
            found[1].append(axis)
        elif not _equal(*pair):
            return [step.unknown("whether an axis is as long as another one is not known", ruleless=True)] * 2
    arrays = [np.asarray(axes, dtype=np.int64) for axes in found]
    conditions = step.ins[0].conditions | step.ins[1].conditions
    return [
        Fact(FactKind.REPLICATED, constant(step, each), shape=each.shape, value=each, conditions=conditions)
        for each in arrays
    ]


def _equal(one: Fact | None, other: Fact | None) -> bool:
    return one is not None and other is not None and one.kind is other.kind and one.scaled == other.scaled


def _flat(step: GraphStep, given: Fact, shape: tuple[int | None, ...] | None) -> Scaled:
    """An operand in another shape; twice over is once, and back again is nothing."""
    form = step.terms.form(given.term)
    base = form[1] if form[0] == "reshaped" else given.term
    before = form[3] if form[0] == "reshaped" else given.shape
    if before is not None and None not in before and before == shape:  # type: ignore[operator]
        return given.scale, base  # type: ignore[return-value]
    return given.scale, step.terms.made("reshaped", base, shape, before)


@rule("Reshape")
def _reshape(step: GraphStep) -> Fact:
    given, target = step.ins
    shape = step.shape()
    if given.term == ONE and given.shape == () and shape == ():
        return given
    if given.kind in (FactKind.REPLICATED, FactKind.PARTIAL, FactKind.STACKED) and target.kind is FactKind.REPLICATED:
        if given.kind is FactKind.STACKED:
            return step.unknown("values of several replicas are put into another shape", ruleless=True)
        if shape is not None and None not in shape:
            if given.value is not None and given.rank is not None and None not in shape:
                return (
                    replace(
                        given,
                        value=given.value.reshape(shape),
                        shape=shape,
                        term=constant(step, given.value.reshape(shape)),
                        scale=Fraction(1),
                    )
                    if shape != ()
                    else given
                )
            return step.like(given, _flat(step, given, shape), lengths=(target,))
        return step.like(given, (given.scale, step.term((Fraction(1), given.term), target)), lengths=(target,))
    if given.kind is FactKind.SPLIT:
        found = _reshaped_rows(step, given, target)
        more = frozenset(replace(each, length=True) for each in target.conditions)
        return replace(found, conditions=found.conditions | more) if more and step.replicas > 1 else found
    if given.kind in (FactKind.ROWS, FactKind.SHAPE) and shape == ():
        return given if given.kind is FactKind.ROWS else given.parts[0]
    if given.kind is FactKind.ROWS and shape == (1,):
        if step.node.dtypes and "int" not in step.node.dtypes[0]:  # a number, and no length
            return step.partial(_flat(step, given, shape))
        return vector(step, [given])
    return step.unknown("another shape, which depends on how many examples the replica has")


def _reshaped_rows(step: GraphStep, given: Fact, target: Fact) -> Fact:
    """Rows stay together where only what is within each row gets another shape."""
    parts = numbers(target)
    shape = step.shape()
    if parts is None or given.shape is None or shape is None:
        return step.unknown("the new shape is not known", ruleless=True)
    before = given.shape[: given.axis]
    if None in before:
        return step.unknown("the new shape is not known", ruleless=True)
    if any(length != 1 for length in before):
        return _behind(step, given, parts)
    ahead = 0
    while ahead < len(parts) and parts[ahead].value is not None and int(parts[ahead].value) == 1:
        ahead += 1
    if ahead == len(parts):
        return step.unknown("the examples of the replica are put into another shape")
    counting, rest = parts[ahead], parts[ahead + 1 :]
    open_end = counting.value is not None and int(counting.value) == -1
    if not (open_end or counting.kind is FactKind.ROWS) or any(each.kind is not FactKind.REPLICATED for each in rest):
        return step.unknown("the examples of the replica are put into another shape")
    if any(each.value is not None and int(each.value) == -1 for each in rest) and not _same_rows(given, counting):
        return step.unknown("the examples of the replica are put into another shape")
    return _rows_first(step, given, ahead, counting, rest)


def _same_rows(given: Fact, counting: Fact) -> bool:
    return counting.kind is FactKind.ROWS and given.rows == counting.scaled


def _rows_first(step: GraphStep, given: Fact, axis: int, counting: Fact, rest: Sequence[Fact]) -> Fact:
    scaled = (
        given.scale,
        step.terms.made("rows", given.term, given.axis, axis, tuple(each.scaled for each in rest)),
    )
    if counting.kind is FactKind.ROWS:
        return step.split(scaled, axis, rows=counting.scaled, of=(given,))
    assert given.shape is not None
    inner = [*given.shape[given.axis + 1 :], *(None if each.value is None else int(each.value) for each in rest)]
    rows = None
    if given.rows is not None and None not in inner and -1 not in inner:
        factor = Fraction(1)
        for length in given.shape[given.axis + 1 :]:
            factor *= length or 0
        for each in rest:
            factor /= max(1, int(each.value))
        rows = (given.rows[0] * factor, given.rows[1])
    if given.shape == step.shape() and given.axis == axis and None not in given.shape[axis + 1 :]:
        return given
    return step.split(scaled, axis, rows=rows, of=(given,))


def _behind(step: GraphStep, given: Fact, parts: Sequence[Fact]) -> Fact:
    """Where something comes before the examples, that has to stay as it is."""
    assert given.shape is not None
    axis = given.axis
    same = len(parts) > axis and all(
        each.value is not None and int(each.value) == length
        for each, length in zip(parts[:axis], given.shape[:axis], strict=True)
    )
    if not same or not _same_rows(given, parts[axis]):
        return step.unknown("the examples of the replica are put into another shape")
    rest = tuple(each.scaled for each in parts[axis + 1 :])
    scaled = given.scale, step.terms.made("rows behind", given.term, axis, rest)
    return step.split(scaled, axis, rows=given.rows, of=(given,))


@rule("Tile", "BroadcastTo", "Fill")
def _spread(step: GraphStep) -> Fact:
    """What everybody has, as often as there are examples; or what is split, along other axes."""
    given, target = step.ins if step.node.type != "Fill" else step.ins[::-1]
    parts, shape = numbers(target), step.shape()
    if shape == () and given.shape == () and target.kind is FactKind.REPLICATED:
        return given
    scaled = given.scale, step.term((Fraction(1), given.term), target, also=step.shape_of(given))
    if target.kind is FactKind.REPLICATED and given.kind in (FactKind.REPLICATED, FactKind.PARTIAL):
        if shape == ():
            return given
        return step.like(given, scaled, lengths=(target,))
    if parts is None or shape is None or given.rank is None:
        return step.unknown("the new shape is not known", ruleless=True)
    counting = [axis - len(parts) for axis, each in enumerate(parts) if each.kind is FactKind.ROWS]
    if given.kind is FactKind.REPLICATED and len(counting) == 1 and _is_one(given, counting[0]):
        return step.split(scaled, len(shape) + counting[0], rows=parts[counting[0]].scaled, lengths=(target,))
    if given.kind is FactKind.SPLIT:
        place = given.axis - given.rank
        at = parts[place] if -place <= len(parts) else None
        stays = at is not None and (
            (step.node.type == "Tile" and at.value is not None and int(at.value) == 1 and not counting)
            or (step.node.type == "BroadcastTo" and counting == [place] and at.scaled == given.rows)
        )
        if stays:
            return step.split(scaled, len(shape) + place, rows=given.rows, lengths=(target,))
    return step.unknown("parts of a sum, or rows, are repeated as often as the replica has examples")


def _is_one(given: Fact, place: int) -> bool:
    shape = given.shape or ()
    return -place > len(shape) or shape[place] == 1


@rule("DynamicStitch", "ParallelDynamicStitch")
def _stitch(step: GraphStep) -> Fact:
    """Numbers by their places, as where the shape of a sum is put together."""
    if step.all_replicated() and not step.is_integer():
        return step.replicated(step.once(*step.ins))
    half = len(step.ins) // 2
    found: dict[int, Fact] = {}
    for places, given in zip(step.ins[:half], step.ins[half:], strict=True):
        if places.value is None or not step.is_integer():
            return step.unknown("places that are not known, or fractions", ruleless=True)
        parts = [given] if given.shape == () else numbers(given)
        at = [int(each) for each in places.value.reshape(-1)]
        if parts is None or len(parts) != len(at):
            return step.unknown("numbers that are not known", ruleless=True)
        found.update(zip(at, parts, strict=True))
    if sorted(found) != list(range(len(found))):
        return step.unknown("places that are left open", ruleless=True)
    return vector(step, [found[at] for at in range(len(found))])
