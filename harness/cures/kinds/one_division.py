"""Cure: what is divided by the replicas, or averaged over them, once more than by the global batch, is not."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from harness.cures.protocol import Source

__all__ = ["CURE"]

_COUNT = "num_replicas_in_sync"
_REDUCTIONS = ("reduce", "all_reduce", "reduce_to")


class _OneDivision:
    codes: tuple[str, ...] = ("loss_divided_by_replicas", "loss_divided_by_workers", "variables_match_reference")

    def changed(self, source: Source) -> Iterator[str]:
        for line in source.lines:
            for node in ast.walk(source.tree):
                if isinstance(node, ast.BinOp) and source.covers(node, line) and _divides(node):
                    yield source.replaced(node, source.of(node.left))
            for call in source.calls(*_REDUCTIONS, line=line):
                for given in call.args[:1]:
                    yield from _summed(source, given)
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Attribute) and node.attr == "MEAN" and "Aggregation" in source.of(node):
                yield source.replaced(node, f"{source.of(node.value)}.SUM")


def _divides(node: ast.BinOp) -> bool:
    """Whether it divides by the number of replicas, or by a name for it."""
    parts = list(ast.walk(node.right))
    named = [each.attr for each in parts if isinstance(each, ast.Attribute)]
    named += [each.id for each in parts if isinstance(each, ast.Name)]
    return isinstance(node.op, ast.Div) and any(name == _COUNT or "replicas" in name for name in named)


def _summed(source: Source, given: ast.expr) -> Iterator[str]:
    if isinstance(given, ast.Constant) and str(given.value).upper() == "MEAN":
        yield source.replaced(given, '"SUM"')
    elif isinstance(given, ast.Attribute) and given.attr == "MEAN":
        yield source.replaced(given, f"{source.of(given.value)}.SUM")
    elif isinstance(given, ast.Name):
        yield source.replaced(given, '"SUM"')


CURE = _OneDivision()
