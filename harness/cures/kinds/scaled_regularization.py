"""Cure: a term that every replica adds whole is divided by their number."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from harness.cures.protocol import NUMBERS, Source

__all__ = ["CURE"]


class _ScaledRegularization:
    codes: tuple[str, ...] = (*NUMBERS, "regularizer_times_replicas", "loss_times_replicas")

    def changed(self, source: Source) -> Iterator[str]:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and node.lineno == source.label.line:
                yield _scaled(source, node.value)
        for node in ast.walk(source.tree):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and source.covers(node, source.label.line):
                yield _scaled(source, node.right)
                yield _scaled(source, node.left)


def _scaled(source: Source, node: ast.expr) -> str:
    return source.replaced(node, f"{source.tensorflow}.nn.scale_regularization_loss({source.of(node)})")


CURE = _ScaledRegularization()
