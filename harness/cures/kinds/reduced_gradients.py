"""Cure: gradients are added up over the replicas before they are applied."""

from __future__ import annotations

from collections.abc import Iterator

from harness.cures.protocol import NUMBERS, CureSource

_OFF = ("skip_gradients_aggregation", "experimental_aggregate_gradients")
_ASSIGNS = ("assign_sub", "assign_add")


class _ReducedGradients:
    codes: tuple[str, ...] = (*NUMBERS, "gradients_not_reduced")

    def changed(self, source: CureSource) -> Iterator[str]:
        for call in source.calls("apply_gradients"):
            words = [word for word in call.keywords if word.arg not in _OFF]
            if len(words) < len(call.keywords):
                given = [*map(source.of, call.args), *(f"{word.arg}={source.of(word.value)}" for word in words)]
                yield source.replaced(call, f"{source.of(call.func)}({', '.join(given)})")
        for call in source.calls(*_ASSIGNS, line=source.line):
            if len(call.args) == 1:
                value = source.of(call.args[0])
                summed = f'{source.context}.all_reduce("SUM", {value})'
                yield source.replaced(call.args[0], summed)


CURE = _ReducedGradients()
