"""Cure: variables put together what replicas assign to them in the way that the program means."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from harness.cures.protocol import NUMBERS, CureSource

_WAYS = ("SUM", "MEAN")


class _Aggregation:
    codes: tuple[str, ...] = (
        *NUMBERS,
        "loss_divided_by_replicas",
        "loss_times_replicas",
        "gradients_not_reduced",
        "accumulation_off",
    )

    def changed(self, source: CureSource) -> Iterator[str]:
        every = [
            node
            for node in ast.walk(source.tree)
            if isinstance(node, ast.Attribute) and source.of(node.value).endswith("VariableAggregation")
        ]
        lines = source.lines
        meant = [node for node in every if any(source.covers(node, line) for line in lines)] or every
        for node in meant:
            for way in _WAYS:
                if way != node.attr:
                    # Variables that are made alike are alike.
                    yield source.text.replace(source.of(node), f"{source.of(node.value)}.{way}")


CURE = _Aggregation()
