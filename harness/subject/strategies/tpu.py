"""`TPUStrategy` on the TPU of this machine."""

from __future__ import annotations

from typing import Any

from harness.subject.strategies.protocol import StrategyCase, StrategyKind

__all__ = ["KIND"]


class _Tpu(StrategyKind):
    name = "tpu"
    order = 60
    accepted = "tpu"
    examples = ("tpu",)
    steps_apart = "the replicas of a TPU are traced as one, so that none can be told from another"

    def needs(self, case: StrategyCase) -> str | None:
        return "a TPU"

    def build(self, case: StrategyCase) -> Any:
        import tensorflow as tf

        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)

    def replicas_seen(self, strategy: Any, case: StrategyCase) -> int:
        return case.replicas  # as many as the TPU has cores


KIND = _Tpu()
