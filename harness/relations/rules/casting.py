"""Casts, linear while no whole number is too large, which of counts is taken for granted; bits, as another dtype."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

from harness.relations.facts import Fact, FactKind
from harness.relations.protocol import GraphStep, rule
from harness.relations.rules.elementwise import counts, nonlinear
from harness.relations.terms import Scaled, Terms

# Others wrap around, or keep few digits: of parts they make something else than of the whole.
_WIDE = {"int32", "int64", "uint32", "uint64", "float", "float32", "double", "float64"}
_ELEMENTS_MAX = 1 << 20
"""Of one example as many may be counted; a greater factor is no size of a tensor, and is too much for thousands."""


@rule("Cast")
def _cast(step: GraphStep) -> Fact:
    """Linear where nothing is cut off; counts stay what they are."""
    (given,) = step.ins
    target, source = step.node.attributes.get("DstT"), step.node.attributes.get("SrcT")
    if given.kind is FactKind.ROWS and target != "bool":
        return _cast_count(step, given)
    if _wraps(source) or _wraps(target):
        if given.kind is FactKind.PARTIAL:
            return step.unknown("a part of a sum of whole numbers that may be too large or negative for a dtype")
        return nonlinear(step)
    keeps = (_is_float(target) and source != "bool") or (_is_integer(source) and _is_integer(target))
    if not keeps or given.kind not in (FactKind.REPLICATED, FactKind.SPLIT, FactKind.PARTIAL):
        return nonlinear(step)
    if given.term == 0:  # a plain number
        return step.like(given, given.scaled)
    multiple = given.kind is FactKind.PARTIAL or given.scale != 1
    safe = not multiple or not _is_integer(source) or source == target or _is_count(step.terms, given.scaled)
    scaled = given.scale, step.term((Fraction(1), given.term))
    return step.like(given, scaled, also=() if safe else [step.within()])


def _cast_count(step: GraphStep, given: Fact) -> Fact:
    """What cuts something off, or wraps around, does so for each replica's count, and not for that of all."""
    target, source = step.node.attributes.get("DstT"), step.node.attributes.get("SrcT")
    if target not in _WIDE:
        return step.unknown("a number of examples that may be too large for what it is cast to")
    whole = counts(step, given) and given.scale.denominator == 1
    if _is_integer(target) and not _is_integer(source) and not whole:
        return step.unknown("a number of examples is rounded in each replica")
    if (_is_unsigned(source) or _is_unsigned(target)) and not whole:
        return step.unknown("a number of examples that may be negative, in a dtype without a sign")
    large = _is_integer(source) and source != target and given.scale > _ELEMENTS_MAX
    return step.fact(FactKind.ROWS, given.scaled, also=[step.within()] if large else ())


def _is_count(terms: Terms, scaled: Scaled) -> bool:
    """Whether it says how many elements there are, or how many of them are so: it does not come near what dtypes hold.

    Lengths, sums of what is 0 or 1, and their products.
    """
    scale, term = scaled
    form: tuple[Any, ...] = terms.form(term)
    if scale.denominator != 1 or not 0 < scale <= _ELEMENTS_MAX:
        return False
    if form[0] in ("*", "+"):
        parts = form[1:] if form[0] == "+" else [(part, Fraction(1)) for part in form[1:]]
        return all(_is_count(terms, (scale * factor, part)) for part, factor in parts)
    if form[0] in ("Sum", "Cast"):
        source = json.loads(form[1]).get("SrcT", "int32")
        ((factor, inner), *_) = form[2]
        return source == "bool" or (_is_integer(source) and _is_count(terms, (scale * factor, inner)))
    if form[0] == "reshaped":
        return _is_count(terms, (scale, form[1]))
    return form[0] in ("one", "rows", "rows of", "length", "ones", "OnesLike")


def _wraps(dtype: str | None) -> bool:
    """Whether it holds few whole numbers, or none below 0."""
    return _is_integer(dtype) and (dtype not in _WIDE or _is_unsigned(dtype))


def _is_unsigned(dtype: str | None) -> bool:
    return dtype is not None and dtype.startswith("uint")


def _is_float(dtype: str | None) -> bool:
    return dtype is not None and ("float" in dtype or dtype == "half")


def _is_integer(dtype: str | None) -> bool:
    return dtype is not None and "int" in dtype


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
