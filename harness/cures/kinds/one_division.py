"""Cure: what is divided by the replicas, or averaged over them, once more than by the global batch, is not."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from harness.cures.protocol import NUMBERS, CureSource, called, names_replicas

_REDUCTIONS = ("reduce", "all_reduce", "reduce_to")


class _OneDivision:
    codes: tuple[str, ...] = (*NUMBERS, "loss_divided_by_replicas", "loss_divided_by_workers", "accumulation_off")

    def changed(self, source: CureSource) -> Iterator[str]:
        for node in source.nodes(ast.BinOp):
            if isinstance(node.op, ast.Div) and names_replicas(node.right):
                yield from _undivided(source, node)
        for call in source.nodes(ast.Call):
            if called(call) in _REDUCTIONS:
                for given in call.args[:1]:
                    yield from _summed(source, given)


def _undivided(source: CureSource, node: ast.BinOp) -> Iterator[str]:
    """What is divided by the replicas alone, or by them and another number."""
    product = node.right
    if isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult):
        left, right = product.left, product.right
        yield source.replaced(product, source.of(left if names_replicas(right) else right))
    else:
        yield source.replaced(node, source.of(node.left))


def _summed(source: CureSource, given: ast.expr) -> Iterator[str]:
    if isinstance(given, ast.Constant) and str(given.value).upper() == "MEAN":
        yield source.replaced(given, '"SUM"')
    elif isinstance(given, ast.Attribute) and given.attr == "MEAN":
        yield source.replaced(given, f"{source.of(given.value)}.SUM")
    elif isinstance(given, ast.Name) and not given.id.upper().endswith("SUM"):
        yield source.replaced(given, '"SUM"')


CURE = _OneDivision()
