"""Constants, and what follows from constants alone: shapes and axes are computed, so that rules can know them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from harness.relations.facts import Fact, FactKind
from harness.relations.protocol import GraphStep
from harness.relations.terms import ONE, rational

_ELEMENTS_MAX = 64


def fact_of_constant(step: GraphStep) -> Fact:
    """A constant is the same for everybody; a single number is a multiple of 1."""
    import numpy as np

    node, shape = step.node, step.shape()
    if node.value is None:
        term = step.terms.made("constant", node.digest, shape)
        return Fact(FactKind.REPLICATED, term, shape=shape, local=term)
    array = np.asarray(node.value.numpy())
    return _of(step, array, shape)


def _of(step: GraphStep, array: Any, shape: Any) -> Fact:
    small = array.size <= _ELEMENTS_MAX
    value = array if small and array.dtype.kind in "iufb" else None
    term, scale = ONE, Fraction(1)
    number = None
    if array.ndim == 0 and array.dtype.kind in "iuf":
        number = Fraction(int(array)) if array.dtype.kind != "f" else rational(float(array), array.dtype.type)
    if number is not None:
        scale = number
    elif small:
        term = step.terms.made("array", array.shape, tuple(array.reshape(-1).tolist()))
    else:
        term = step.terms.made("constant", step.node.digest, shape)
    local = step.terms.made(
        "number", array.dtype.kind, array.shape, tuple(array.reshape(-1).tolist()) if small else step.node.digest
    )
    return Fact(
        FactKind.REPLICATED, term, scale, shape=array.shape if shape is None else shape, value=value, local=local
    )


def _axis(step: GraphStep, position: int) -> int:
    return int(step.ins[position].value.reshape(-1)[0])


def _reduced(function: str) -> Callable[[GraphStep, Any], Any]:
    def reduce(step: GraphStep, values: Any) -> Any:
        import numpy as np

        axes = tuple(int(each) for each in values[1].reshape(-1))
        return getattr(np, function)(values[0], axis=axes, keepdims=bool(step.node.attributes.get("keep_dims")))

    return reduce


def _plain(function: str) -> Callable[[GraphStep, Any], Any]:
    def compute(step: GraphStep, values: Any) -> Any:
        import numpy as np

        return getattr(np, function)(*values)

    return compute


def _range(step: GraphStep, values: Any) -> Any:
    import numpy as np

    return np.arange(*(each.item() for each in values))


def _concat(step: GraphStep, values: Any) -> Any:
    import numpy as np

    return np.concatenate(values[:-1], axis=int(values[-1].reshape(-1)[0]))


def _stack(step: GraphStep, values: Any) -> Any:
    import numpy as np

    return np.stack(values, axis=int(step.node.attributes.get("axis", 0) or 0))


def _filled(values: Any) -> Any:
    import numpy as np

    shape = tuple(int(each) for each in values[0])
    return np.full(shape, values[1]) if np.prod(shape, dtype=float) <= _ELEMENTS_MAX else None


def _cut(given: Any, begin: Any, size: Any) -> Any:
    ends = [length if many < 0 else first + many for first, many, length in zip(begin, size, given.shape, strict=True)]
    return given[tuple(slice(int(first), int(end)) for first, end in zip(begin, ends, strict=True))]


def _inverted(order: Any) -> Any:
    import numpy as np

    return np.argsort(order)


def _sliced(step: GraphStep, values: Any) -> Any:
    given, begin, end, strides = values
    masks = step.node.attributes
    if given.ndim != 1 or begin.size != 1 or masks.get("ellipsis_mask") or masks.get("new_axis_mask"):
        return None
    if masks.get("shrink_axis_mask"):
        return given[int(begin[0])]
    first = None if (masks.get("begin_mask") or 0) & 1 else int(begin[0])
    last = None if (masks.get("end_mask") or 0) & 1 else int(end[0])
    return given[first : last : int(strides[0])]


def _gathered(step: GraphStep, values: Any) -> Any:
    return values[0][values[1]] if values[0].ndim == 1 and not step.node.attributes.get("batch_dims") else None


def _cast(step: GraphStep, values: Any) -> Any:
    import numpy as np

    target = str(step.node.attributes.get("DstT"))
    return values[0].astype(target) if target in np.sctypeDict and values[0].dtype.kind in "iufb" else None


# Whole numbers only: of others the terms know more.
_FOLDING: dict[str, Callable[[GraphStep, Any], Any]] = {
    "Add": _plain("add"),
    "AddV2": _plain("add"),
    "Sub": _plain("subtract"),
    "Mul": _plain("multiply"),
    "FloorDiv": _plain("floor_divide"),
    "FloorMod": _plain("mod"),
    "Maximum": _plain("maximum"),
    "Minimum": _plain("minimum"),
    "Neg": _plain("negative"),
    "Equal": _plain("equal"),
    "NotEqual": _plain("not_equal"),
    "Greater": _plain("greater"),
    "GreaterEqual": _plain("greater_equal"),
    "Less": _plain("less"),
    "LessEqual": _plain("less_equal"),
    "LogicalAnd": _plain("logical_and"),
    "LogicalOr": _plain("logical_or"),
    "LogicalNot": _plain("logical_not"),
    "SelectV2": _plain("where"),
    "Fill": lambda _, values: _filled(values),
    "Range": _range,
    "ConcatV2": _concat,
    "Pack": _stack,
    "StridedSlice": _sliced,
    "GatherV2": lambda step, values: _gathered(step, values[:2]),
    "InvertPermutation": lambda _, values: _inverted(values[0]),
    "Prod": _reduced("prod"),
    "Sum": _reduced("sum"),
    "Max": _reduced("max"),
    "Min": _reduced("min"),
    "All": _reduced("all"),
    "Any": _reduced("any"),
    "Slice": lambda _, values: _cut(*values),
    "Squeeze": lambda step, values: values[0].reshape(step.shape()),
    "ExpandDims": lambda step, values: values[0].reshape(step.shape()),
    "Cast": _cast,
}


def folded(step: GraphStep) -> list[Fact] | None:
    """The result of an operation on small constants of whole numbers, or of one that depends on a known shape only."""
    import numpy as np

    if step.node.type == "Rank" and step.ins[0].rank is not None:
        return [_of(step, np.asarray(step.ins[0].rank, dtype=np.int32), ())]
    known = _FOLDING.get(step.node.type)
    if known is None or not step.ins or any(each.value is None for each in step.ins):
        return None
    if any(each.value.dtype.kind not in "iub" for each in step.ins):
        return None
    shape = step.shape()
    if shape is None or None in shape:
        shape = None
        if step.node.type in ("Squeeze", "ExpandDims"):
            return None
    with np.errstate(all="ignore"):
        result = known(step, [each.value for each in step.ins])
    if result is None or np.size(result) > _ELEMENTS_MAX:
        return None
    array = np.asarray(result)
    found = _of(step, array, array.shape)
    conditions = frozenset[Any]().union(*(each.conditions for each in step.ins))
    return [replace(found, conditions=conditions)]
