"""Operations that only move elements: axes come and go, are cut, joined and turned, and rows stay rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import cast

from harness.relations.facts import Fact, FactKind
from harness.relations.protocol import GraphStep, rule
from harness.relations.rules.reducing import axes_of
from harness.relations.rules.shapes import numbers, vector
from harness.relations.terms import Scaled

_KNOWN = (FactKind.SPLIT, FactKind.REPLICATED, FactKind.PARTIAL)


def _once(step: GraphStep, given: Fact, *also: object, output: int = 0) -> Scaled:
    """Linear in an operand."""
    return given.scale, step.term((Fraction(1), given.term), output=output, also=also)


@rule("ExpandDims")
def _expand(step: GraphStep) -> Fact:
    given, at = step.ins
    shape = step.shape()
    if given.kind in (FactKind.ROWS, FactKind.REPLICATED) and given.shape == () and shape == (1,):
        whole = given.kind is FactKind.ROWS and step.is_integer()
        return vector(step, [given]) if whole else _number_in_a_row(step, given)
    if at.value is None or shape is None or given.kind not in _KNOWN:
        return step.unknown("an axis that is not known", ruleless=True)
    axis = int(at.value.reshape(-1)[0]) % len(shape)
    moved = given.axis + (axis <= given.axis)
    return step.like(given, _once(step, given, axis), axis=moved)


def _number_in_a_row(step: GraphStep, given: Fact) -> Fact:
    """A number of rows that is no whole number any more is a part of a sum."""
    return (step.partial if given.kind is FactKind.ROWS else step.replicated)(_once(step, given))


@rule("Squeeze")
def _squeeze(step: GraphStep) -> Fact:
    (given,) = step.ins
    if given.kind is FactKind.SHAPE and len(given.parts) == 1:
        return given.parts[0]
    if given.kind not in _KNOWN or given.rank is None:
        return step.unknown("a shape that is not known", ruleless=True)
    axes = [int(each) % given.rank for each in step.node.attributes.get("squeeze_dims") or ()]
    if given.kind is FactKind.SPLIT and (not axes or given.axis in axes):
        return step.unknown("which axes go depends on how many examples the replica has")
    moved = given.axis - sum(each < given.axis for each in axes)
    return step.like(given, _once(step, given), axis=moved)


@rule("Transpose", "ConjugateTranspose")
def _transpose(step: GraphStep) -> Fact:
    given, order = step.ins
    if order.value is None or given.kind not in _KNOWN:
        return step.unknown("an order that is not known", ruleless=True)
    axes = [int(each) for each in order.value.reshape(-1)]
    moved = axes.index(given.axis) if given.kind is FactKind.SPLIT else 0
    return step.like(given, _once(step, given, tuple(axes)), axis=moved)


@rule("ReverseV2", "Roll")
def _turned(step: GraphStep) -> Fact:
    given = step.ins[0]
    axes = axes_of(step, given, len(step.ins) - 1)
    if step.all_replicated():
        return step.replicated(step.once(*step.ins))
    fine = axes is not None and all(each.kind is FactKind.REPLICATED for each in step.ins[1:])
    if not fine or given.kind not in _KNOWN or (given.kind is FactKind.SPLIT and given.axis in (axes or ())):
        return step.unknown("the order of the replica's own examples is changed")
    return step.like(given, (given.scale, step.term((Fraction(1), given.term), *step.ins[1:])))


@rule("Pack")
def _pack(step: GraphStep) -> Fact:
    axis = int(step.node.attributes.get("axis", 0) or 0)
    shape = step.shape()
    numbered = FactKind.ROWS in step.kinds or all(each.value is not None for each in step.ins)
    if (
        numbered
        and step.is_integer()
        and shape is not None
        and len(shape) == 1
        and set(step.kinds) <= {FactKind.ROWS, FactKind.REPLICATED}
    ):
        return vector(step, step.ins)
    return _joined(step, step.ins, None if shape is None else axis % len(shape), new=True)


@rule("ConcatV2")
def _concat(step: GraphStep) -> Fact:
    *given, at = step.ins
    shape = step.shape()
    parts = [numbers(each) for each in given]
    if (
        step.is_integer()
        and any(each.kind is FactKind.SHAPE for each in given)
        and all(each is not None for each in parts)
    ):
        return vector(step, [each for part in parts for each in part or ()])
    axis = None if at.value is None or shape is None else int(at.value.reshape(-1)[0]) % len(shape)
    return _joined(step, given, axis, new=False)


def _joined(step: GraphStep, given: Sequence[Fact], axis: int | None, *, new: bool) -> Fact:
    """Values side by side; parts of it keep their own factors."""
    kinds = {each.kind for each in given}
    if axis is None or not kinds <= {*_KNOWN, FactKind.ROWS}:
        return step.unknown("these are put together along an axis that is not known", ruleless=True)
    scales = {each.scale for each in given}
    # What everybody has adds up to R times as much.
    partial = kinds & {FactKind.PARTIAL, FactKind.ROWS}
    values = [
        (each.scale * step.replicas if partial and each.kind is FactKind.REPLICATED else each.scale, each.term)
        for each in given
    ]
    scale = Fraction(1)
    if len(scales) == 1 and len(kinds) == 1 and values[0][0]:
        scale, values = values[0][0], [(Fraction(1), term) for _, term in values]
    shapes = tuple(each.shape for each in given) if all(_is_whole(each) for each in given) else None
    scaled = scale, step.terms.made("joined", axis, new, tuple(values), shapes)
    if kinds == {FactKind.REPLICATED}:
        return step.replicated(scaled)
    if partial and FactKind.SPLIT not in kinds:
        return step.partial(scaled)
    if kinds == {FactKind.SPLIT}:
        axes = {each.axis + (new and axis <= each.axis) for each in given}
        rows = {each.rows for each in given}
        if len(axes) == 1 and axis not in axes:
            return step.split(scaled, axes.pop(), rows=rows.pop() if len(rows) == 1 else None)
    return step.unknown("the replica's examples are put next to something else")


def _is_whole(given: Fact) -> bool:
    return given.shape is not None and None not in given.shape


@rule("Unpack", "Split", "SplitV")
def _apart(step: GraphStep) -> list[Fact]:
    kind = step.node.type
    given = step.ins[1] if kind == "Split" else step.ins[0]
    count = len(step.node.shapes)
    nothing = [step.unknown("cut along an axis that is not known", ruleless=True)] * count
    if kind == "Unpack":
        axis = int(step.node.attributes.get("axis", 0) or 0)
    else:
        at = step.ins[0 if kind == "Split" else 2]
        if at.value is None:
            return nothing
        axis = int(at.value.reshape(-1)[0])
    if (
        given.kind not in _KNOWN
        or given.rank is None
        or any(each.kind is not FactKind.REPLICATED for each in step.ins if each is not given)
    ):
        if given.kind is FactKind.SHAPE and kind == "Unpack":
            return list(given.parts)
        return nothing
    axis %= given.rank
    if given.kind is FactKind.SPLIT and given.axis == axis:
        return [step.unknown("the replica's own examples are told apart by their place")] * count
    if count == 1 and kind != "Unpack":
        return [given]
    if (parts := _parts(step, given, axis)) is not None:
        return parts
    moved = given.axis - (kind == "Unpack" and axis < given.axis)
    sizes = step.ins[1].scaled if kind == "SplitV" else None
    return [step.like(given, _once(step, given, axis, sizes, output=at), axis=moved, output=at) for at in range(count)]


def _parts(step: GraphStep, given: Fact, axis: int) -> list[Fact] | None:
    """What was put together, if it is cut as it was joined."""
    form = step.terms.form(given.term)
    if form[0] != "joined" or form[1] != axis or form[4] is None:
        return None
    new, values, shapes = form[2], cast("tuple[Scaled, ...]", form[3]), form[4]
    wanted = tuple(step.node.shapes)
    if step.node.type == "SplitV" and given.rank == 1 and (sizes := numbers(step.ins[1])) is not None:
        lengths = [None if each.value is None else int(each.value) for each in sizes]
        wanted = tuple((length,) for length in lengths) if -1 not in lengths else wanted
    if wanted != shapes or new != (step.node.type == "Unpack"):
        return None
    if new and given.kind is FactKind.SPLIT:
        return None
    return [
        replace(step.like(given, (given.scale * scale, term), output=at), shape=wanted[at])
        for at, (scale, term) in enumerate(values)
    ]


@rule("StridedSlice", "Slice")
def _slice(step: GraphStep) -> Fact:
    given = step.ins[0]
    if given.kind is FactKind.SHAPE:
        return _numbers_of(step, given)
    if step.all_replicated():
        return step.replicated((given.scale, step.term((Fraction(1), given.term), *step.ins[1:])))
    whole = _untouched(step, given)
    if given.kind is FactKind.PARTIAL and all(each.kind is FactKind.REPLICATED for each in step.ins[1:]):
        return step.partial((given.scale, step.term((Fraction(1), given.term), *step.ins[1:])))
    if given.kind is FactKind.SPLIT and whole is not None:
        place, what = whole
        return step.split(
            (given.scale, step.term((Fraction(1), given.term), also=what)),
            place,
            rows=given.rows,
            of=(given,),
            lengths=step.ins[1:],
        )
    return step.unknown("the replica's own examples are told apart by their place")


def _numbers_of(step: GraphStep, given: Fact) -> Fact:
    """One or some of the lengths of a shape."""
    begin, end = step.constant(1), step.constant(2)
    masks = step.node.attributes
    if begin is None or end is None or begin.size != 1 or masks.get("ellipsis_mask") or masks.get("new_axis_mask"):
        return step.unknown("a length that is not known", ruleless=True)
    first, last, stride = int(begin[0]), int(end[0]), 1
    if step.node.type == "Slice":
        last = len(given.parts) if last == -1 else first + last
    else:
        strides = step.constant(3)
        if strides is None:
            return step.unknown("a length that is not known", ruleless=True)
        stride = int(strides[0])
    if masks.get("shrink_axis_mask"):
        return given.parts[first]
    start = None if (masks.get("begin_mask") or 0) & 1 else first
    stop = None if (masks.get("end_mask") or 0) & 1 else last
    return vector(step, given.parts[start:stop:stride])


def _untouched(step: GraphStep, given: Fact) -> tuple[int, object] | None:
    """Where the examples are after a cut that leaves all of them, and what else is cut; None if it may not."""
    if given.kind is not FactKind.SPLIT or given.rank is None:
        return None
    bounds = [numbers(each) for each in step.ins[1:]]
    if any(each is None for each in bounds):
        return None
    masks = {
        name: int(step.node.attributes.get(f"{name}_mask") or 0)
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    if step.node.type == "Slice":
        begin, size = bounds[0] or [], bounds[1] or []
        at = size[given.axis]
        whole = begin[given.axis].value is not None and int(begin[given.axis].value) == 0
        if (
            whole
            and (
                (at.value is not None and int(at.value) == -1) or (at.kind is FactKind.ROWS and at.scaled == given.rows)
            )
            and all(each.kind is FactKind.REPLICATED for axis, each in enumerate(size) if axis != given.axis)
            and all(each.kind is FactKind.REPLICATED for axis, each in enumerate(begin) if axis != given.axis)
        ):
            return given.axis, ("slice", _plain(begin, given.axis), _plain(size, given.axis))
        return None
    return _untouched_strides(given, bounds, masks)  # type: ignore[arg-type]


def _plain(values: Sequence[Fact], without: int) -> tuple[Scaled | None, ...]:
    return tuple(None if axis == without else each.scaled for axis, each in enumerate(values))


def _untouched_strides(given: Fact, bounds: list[list[Fact]], masks: dict[str, int]) -> tuple[int, object] | None:
    begin, end, strides = bounds
    axis = result = 0
    found: int | None = None
    kept: list[object] = []
    for place in range(len(begin)):
        bit = 1 << place
        if masks["ellipsis"] & bit:
            later = range(place + 1, len(begin))
            skipped = (given.rank or 0) - axis - sum(not masks["new_axis"] & (1 << each) for each in later)
            if axis <= given.axis < axis + skipped:
                found = result + given.axis - axis
            axis, result = axis + skipped, result + skipped
            kept.append(("all", skipped))
        elif masks["new_axis"] & bit:
            result += 1
            kept.append("new")
        else:
            shrinks = bool(masks["shrink_axis"] & bit)
            if axis == given.axis:
                whole = not shrinks and masks["begin"] & bit and masks["end"] & bit and _is_number(strides[place], 1)
                starts = (
                    not shrinks and _is_number(begin[place], 0) and masks["end"] & bit and _is_number(strides[place], 1)
                )
                if not (whole or starts):
                    return None
                found = result
                kept.append("rows")
            else:
                if any(each.kind is not FactKind.REPLICATED for each in (begin[place], end[place], strides[place])):
                    return None
                kept.append(
                    (
                        None if masks["begin"] & bit else begin[place].scaled,
                        None if masks["end"] & bit else end[place].scaled,
                        strides[place].scaled,
                        shrinks,
                    )
                )
            axis, result = axis + 1, result + (not shrinks)
    if found is None and axis <= given.axis:
        found = result + given.axis - axis
    return None if found is None else (found, tuple(kept))


def _is_number(given: Fact, value: int) -> bool:
    return given.value is not None and int(given.value) == value


@rule("StridedSliceGrad")
def _slice_gradient(step: GraphStep) -> Fact:
    """Zeros around what was cut out."""
    shape, begin, end, strides, gradient = step.ins
    if gradient.kind in (FactKind.REPLICATED, FactKind.PARTIAL) and step.all_replicated(step.ins[:4]):
        return step.like(
            gradient, (gradient.scale, step.term(shape, begin, end, strides, (Fraction(1), gradient.term)))
        )
    parts = numbers(shape)
    counting = [axis for axis, each in enumerate(parts or ()) if each.kind is FactKind.ROWS]
    if (
        gradient.kind is FactKind.SPLIT
        and parts is not None
        and len(counting) == 1
        and step.all_replicated((begin, end, strides))
    ):
        result = step.shape()
        outline = Fact(FactKind.SPLIT, axis=counting[0], rows=parts[counting[0]].scaled, shape=result)
        whole = _untouched(GraphStep(step.node, (outline, begin, end, strides), step.world), outline)
        if whole is not None and whole[0] == gradient.axis and gradient.rows == parts[counting[0]].scaled:
            others = tuple(each.scaled for axis, each in enumerate(parts) if axis != counting[0])
            scaled = gradient.scale, step.term((Fraction(1), gradient.term), also=(whole[1], others))
            return step.split(scaled, counting[0], rows=gradient.rows, of=(gradient,), lengths=step.ins[:4])
    return step.unknown("the replica's own examples are told apart by their place")


@rule("Pad", "PadV2", "MirrorPad")
def _padded(step: GraphStep) -> Fact:
    given, widths = step.ins[0], step.ins[1]
    if step.all_replicated():
        return step.replicated(step.once(*step.ins))
    fine = widths.value is not None and all(each.kind is FactKind.REPLICATED for each in step.ins[1:])
    if fine and given.kind is FactKind.SPLIT and not widths.value[given.axis].any():
        return step.split(step.once(*step.ins), given.axis, rows=given.rows)
    return step.unknown("something is put next to the replica's own examples")


@rule("OneHot")
def _one_hot(step: GraphStep) -> Fact:
    given = step.ins[0]
    if step.all_replicated():
        return step.replicated(step.once(*step.ins))
    axis, shape = int(step.node.attributes.get("axis", -1)), step.shape()
    if given.kind is FactKind.SPLIT and shape is not None and step.all_replicated(step.ins[1:]):
        axis %= len(shape)
        return step.split(step.once(*step.ins), given.axis + (axis <= given.axis), rows=given.rows)
    return step.unknown("a vector for a number that is no example's")
