"""Cure: a number that each replica has computed over its own examples is put together over all replicas."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from harness.cures.protocol import NUMBERS, CureSource, called

_SUMS = ("reduce_sum", "sum", "count_nonzero")
_MEANS = ("reduce_mean", "mean")
_OTHERS = ("reduce_max", "reduce_min", "reduce_all", "reduce_any", "max", "min", "amax", "amin")


class _GlobalStatistic:
    codes: tuple[str, ...] = (
        *NUMBERS,
        "divided_by_own_number",
        "mean_of_replica_means",
        "local_overflow_decision",
        "batch_statistics_local",
    )

    def changed(self, source: CureSource) -> Iterator[str]:
        for line in source.lines:
            for call in self._calls(source, line):
                yield from (source.replaced(call, text) for text in _globally(source, call))

    def _calls(self, source: CureSource, line: int) -> Iterator[ast.Call]:
        """What reduces in a line, what is divided by first: whose sum is a count has the rest summed by the program."""
        found = list(source.calls(*_SUMS, *_MEANS, *_OTHERS, line=line))
        divisors = [
            node.right for node in ast.walk(source.tree) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
        ]
        inner = {id(each) for divisor in divisors for each in ast.walk(divisor)}
        yield from sorted(found, key=lambda call: id(call) not in inner)


def _globally(source: CureSource, call: ast.Call) -> Iterator[str]:
    """What a reduction may be over all replicas, where the program goes on to add up, or to average, what they have."""
    tf, text = source.tensorflow, source.of(call)
    context = source.context
    if called(call) in _OTHERS:
        yield f"{source.of(call.func)}({context}.all_gather({tf}.expand_dims({text}, 0), axis=0), axis=0)"
        return
    if called(call) in _SUMS:
        yield f'{context}.all_reduce("SUM", {text})'
    yield f'{context}.all_reduce("MEAN", {text})'
    if called(call) in _MEANS and len(call.args) == 1 and not call.keywords:
        values = source.of(call.args[0])
        count = f'{context}.all_reduce("MEAN", {tf}.cast({tf}.size({values}), {tf}.float32))'
        yield f"({tf}.reduce_sum({values}) / {count})"


CURE = _GlobalStatistic()
