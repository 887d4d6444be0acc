"""Rules held against TensorFlow's own operations: runs in a task, since it imports TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from harness.relations.facts import FactKind
from tests.harness._relating import Case, Drawing, Operand, broken

_SEEDS = 40
_Made = tuple[list[Operand], Callable[..., Any], dict[str, Any]]


def _rows(drawing: Drawing, *shape: int) -> Operand:
    return drawing.operand(FactKind.SPLIT, shape)


def _given(drawing: Drawing, *shape: int) -> Operand:
    return drawing.operand(FactKind.REPLICATED, shape)


def _numbers(drawing: Drawing, most: int) -> Operand:
    """Of each example a whole number."""
    drawn = drawing.operand(FactKind.SPLIT, ())
    whole = (np.abs(drawn.whole) * 5).astype(np.int32) % most
    parts = tuple(np.split(whole, np.cumsum(drawing.shares)[:-1]))
    return Operand(replace(drawn.fact, scale=Fraction(1)), parts, whole)


_SAME = {"strides": [1, 1, 1, 1], "padding": "SAME"}


def _filtered(raw: Any, drawing: Drawing) -> _Made:
    operands = [
        drawing.operand(drawing.pick((FactKind.SPLIT, FactKind.PARTIAL)), (4, 4, 2)),
        _given(drawing, 3, 3, 2, 3),
    ]
    if operands[0].fact.kind is FactKind.PARTIAL:
        operands[0] = drawing.operand(FactKind.PARTIAL, (5, 4, 4, 2))
    return operands, lambda x, f: raw.Conv2D(input=x, filter=f, **_SAME), _SAME


def _to_filter(raw: Any, drawing: Drawing) -> _Made:
    sizes = drawing.constant(np.asarray([3, 3, 2, 3], np.int32))
    operands = [_rows(drawing, 4, 4, 2), sizes, _rows(drawing, 4, 4, 3)]
    compute = lambda x, s, g: raw.Conv2DBackpropFilter(  # noqa: E731
        input=x, filter_sizes=np.asarray([3, 3, 2, 3], np.int32), out_backprop=g, **_SAME
    )
    return operands, compute, _SAME


def _biased(raw: Any, drawing: Drawing) -> _Made:
    return [_rows(drawing, 4, 3), _given(drawing, 3)], lambda x, b: raw.BiasAdd(value=x, bias=b), {}


def _bias_gradient(raw: Any, drawing: Drawing) -> _Made:
    return [_rows(drawing, 4, 3)], lambda x: raw.BiasAddGrad(out_backprop=x), {}


def _averaged(raw: Any, drawing: Drawing) -> _Made:
    attributes = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    return [_rows(drawing, 4, 4, 2)], lambda x: raw.AvgPool(value=x, **attributes), attributes


def _largest(raw: Any, drawing: Drawing) -> _Made:
    attributes = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    return [_rows(drawing, 4, 4, 2)], lambda x: raw.MaxPool(input=x, **attributes), attributes


def _entropy(raw: Any, drawing: Drawing) -> _Made:
    def compute(x: Any, labels: Any) -> Any:
        return raw.SparseSoftmaxCrossEntropyWithLogits(features=x, labels=np.asarray(labels, np.int32)).loss

    return [_rows(drawing, 4), _numbers(drawing, 4)], compute, {}


def _equation(raw: Any, drawing: Drawing) -> _Made:
    text = drawing.pick(("bij,jk->bik", "bij,bik->jk", "bij,bkj->bik"))
    other = _given(drawing, 3, 5) if text.startswith("bij,jk") else _rows(drawing, 2 if "bik->" in text else 5, 3)
    if text == "bij,bik->jk":
        other = _rows(drawing, 2, 5)
    return [_rows(drawing, 2, 3), other], lambda x, y: raw.Einsum(inputs=[x, y], equation=text), {"equation": text}


def _batched(raw: Any, drawing: Drawing) -> _Made:
    other = drawing.pick((_rows(drawing, 3, 4), _given(drawing, 3, 4)))
    return [_rows(drawing, 2, 3), other], lambda x, y: raw.BatchMatMulV2(x=x, y=y), {}


def _looked_up(raw: Any, drawing: Drawing) -> _Made:
    axis = drawing.constant(np.int32(0))

    def compute(table: Any, at: Any, _: Any) -> Any:
        return raw.GatherV2(params=table, indices=np.asarray(at, np.int32), axis=0)

    return [_given(drawing, 4, 2), _numbers(drawing, 4), axis], compute, {}


def _normalised(raw: Any, drawing: Drawing) -> _Made:
    attributes = {"is_training": False, "epsilon": 0.001}
    operands = [_rows(drawing, 4, 4, 2), *(drawing.operand(FactKind.REPLICATED, (2,), positive=True) for _ in range(4))]

    def compute(x: Any, *given: Any) -> Any:
        names = ("scale", "offset", "mean", "variance")
        positive = [np.abs(each) for each in given]
        return raw.FusedBatchNormV3(x=x, **dict(zip(names, positive, strict=True)), **attributes).y

    return [replace(each) if each is operands[0] else _positive(each) for each in operands], compute, attributes


def _positive(given: Operand) -> Operand:
    """With a scale of 1, for what is taken a root of."""
    return Operand(replace(given.fact, scale=Fraction(1)), (given.whole,) * len(given.parts), given.whole)


_CASES: dict[str, Callable[[Any, Drawing], _Made]] = {
    "Conv2D": _filtered,
    "Conv2DBackpropFilter": _to_filter,
    "BiasAdd": _biased,
    "BiasAddGrad": _bias_gradient,
    "AvgPool": _averaged,
    "MaxPool": _largest,
    "SparseSoftmaxCrossEntropyWithLogits": _entropy,
    "Einsum": _equation,
    "BatchMatMulV2": _batched,
    "GatherV2": _looked_up,
    "FusedBatchNormV3": _normalised,
}


def problems() -> tuple[dict[str, list[str]], dict[str, int]]:
    """What is wrong with the rules of some operations, and how often each was compared."""
    import tensorflow as tf

    found: dict[str, list[str]] = {}
    compared: dict[str, int] = {}
    for kind, made in _CASES.items():
        for seed in range(_SEEDS):
            drawing = Drawing(seed)
            operands, compute, attributes = made(tf.raw_ops, drawing)

            def computed(*given: Any, compute: Any = compute) -> Any:
                return np.asarray(compute(*(np.asarray(each, np.float32) for each in given)), np.float64)

            case = Case(kind, tuple(operands), attributes, drawing.shares, computed)
            result = broken(case, drawing, tolerance=1e-3)
            compared[kind] = compared.get(kind, 0) + (result is None)
            if result:
                found.setdefault(kind, []).append(f"seed {seed}: {result}")
    return found, compared
