"""Cure: what is found in a batch, such as its spread or its largest rows, is found in those of all replicas."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from harness.cures.protocol import NUMBERS, Source, called

__all__ = ["CURE"]

_OF_ROWS = (
    "argmax",
    "argmin",
    "argsort",
    "moments",
    "reduce_logsumexp",
    "reduce_std",
    "reduce_variance",
    "sort",
    "std",
    "top_k",
    "var",
)


class _Gathered:
    codes: tuple[str, ...] = (*NUMBERS, "mean_of_replica_means", "batch_statistics_local")

    def changed(self, source: Source) -> Iterator[str]:
        for call in source.nodes(ast.Call):
            if called(call) in _OF_ROWS and call.args:
                rows = source.of(call.args[0])
                yield source.replaced(call.args[0], f"{source.context}.all_gather({rows}, axis=0)")


CURE = _Gathered()
