"""TensorFlow's default strategy, which is no distribution at all: what all others are compared with."""

from __future__ import annotations

from typing import Any

from harness.subject.strategies.protocol import StrategyCase, StrategyKind


class _Default(StrategyKind):
    name = "default"
    order = 0
    accepted = "default"
    examples = ("default",)

    def build(self, case: StrategyCase) -> Any:
        import tensorflow as tf

        return tf.distribute.get_strategy()


KIND = _Default()
