"""Cure: Keras's batch normalization takes the statistics of the global batch."""

from __future__ import annotations

from collections.abc import Iterator

from harness.cures.protocol import NUMBERS, CureSource


class _SynchronizedNormalization:
    codes: tuple[str, ...] = (*NUMBERS, "batch_statistics_local")

    def changed(self, source: CureSource) -> Iterator[str]:
        for call in source.calls("BatchNormalization"):
            if all(word.arg != "synchronized" for word in call.keywords):
                given = [*map(source.of, call.args), *(f"{word.arg}={source.of(word.value)}" for word in call.keywords)]
                yield source.replaced(call, f"{source.of(call.func)}({', '.join([*given, 'synchronized=True'])})")


CURE = _SynchronizedNormalization()
