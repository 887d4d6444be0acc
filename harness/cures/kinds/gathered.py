"""Cure: what is found in a batch, such as its spread or its largest rows, is found in those of all replicas."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from harness.cures.protocol import NUMBERS, CureSource, called

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
_MEANS = ("mean", "reduce_mean")
"""Which go with the others, as where rows are centered and scaled."""


class _Gathered:
    codes: tuple[str, ...] = (*NUMBERS, "divided_by_own_number", "mean_of_replica_means", "batch_statistics_local")

    def changed(self, source: CureSource) -> Iterator[str]:
        calls = [call for call in source.nodes(ast.Call) if called(call) in (*_OF_ROWS, *_MEANS) and call.args]
        given = {call.args[0]: f"{source.context}.all_gather({source.of(call.args[0])}, axis=0)" for call in calls}
        alone = [call.args[0] for call in calls if called(call) in _OF_ROWS]
        yield from (source.replaced(rows, given[rows]) for rows in alone)
        if len(given) > 1 and not any(_is_in(rows, other) for rows in given for other in given):
            yield source.replaced_all(given)


def _is_in(one: ast.expr, other: ast.expr) -> bool:
    return one is not other and any(each is one for each in ast.walk(other))


CURE = _Gathered()
