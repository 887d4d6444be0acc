"""Cure: a report is put together of what all replicas have, and averaged if each of them has a mean."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from harness.cures.protocol import NUMBERS, CureSource, called
from harness.judging.culprit.kinds import REPORT

_LOCAL = "experimental_local_results"


class _ReducedReport:
    codes: tuple[str, ...] = (*NUMBERS, REPORT.code, "metric_not_aggregated", "loss_times_replicas")

    def changed(self, source: CureSource) -> Iterator[str]:
        for part in source.nodes(ast.Subscript):
            call = part.value
            if isinstance(call, ast.Call) and called(call) == _LOCAL and isinstance(call.func, ast.Attribute):
                for way in ("SUM", "MEAN"):
                    reduced = f'{source.of(call.func.value)}.reduce("{way}", {source.of(call.args[0])}, axis=None)'
                    yield source.replaced(part, reduced)
        for call in source.nodes(ast.Call):
            if called(call) == "reduce" and call.args and source.of(call.args[0]).strip("\"'").endswith("SUM"):
                yield source.replaced(call.args[0], '"MEAN"')


CURE = _ReducedReport()
