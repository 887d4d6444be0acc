"""`TPUStrategy` on the TPU of this machine, or on one that has a name or an address; rehearsed on a CPU if asked.

A rehearsal has one replica, as one core of a TPU. `harness.recording.tpu_rehearsal` makes XLA compile what it runs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from harness.subject.strategies.protocol import StrategyCase, StrategyKind

REHEARSED = "TPU REHEARSED on the CPU (one replica, compiled by XLA)"
"""What a task says that it computes on where there is no TPU."""

_LOCAL = "local"


def tpu_of(environ: Mapping[str, str]) -> str:
    """Which TPU is meant, as `TPUClusterResolver` takes it: a name, `grpc://HOST:PORT`, or `local` for this machine's.

    `LOCKSTEP_TPU` is asked first, then what Google's machines set: `TPU_NAME`, and `COLAB_TPU_ADDR` without a scheme.
    """
    if named := environ.get("LOCKSTEP_TPU") or environ.get("TPU_NAME"):
        return named
    if address := environ.get("COLAB_TPU_ADDR"):
        return f"grpc://{address}"
    return _LOCAL


class _Tpu(StrategyKind):
    name = "tpu"
    order = 60
    accepted = "tpu"
    examples = ("tpu",)
    steps_apart = "the replicas of a TPU are traced as one, so that none can be told from another"
    on_tpu = True

    def needs(self, case: StrategyCase) -> str | None:
        return None if case.rehearsed else "a TPU"

    def build(self, case: StrategyCase) -> Any:
        import tensorflow as tf

        if case.rehearsed:
            return tf.distribute.OneDeviceStrategy("/device:CPU:0")
        which = tpu_of(os.environ)
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=which)
        if which != _LOCAL:
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)

    def replicas_seen(self, strategy: Any, case: StrategyCase) -> int:
        return case.replicas  # as many as the TPU has cores

    def local_replicas(self, strategy: Any, case: StrategyCase) -> int:
        return int(strategy.num_replicas_in_sync)

    def computes_on(self, strategy: Any, case: StrategyCase) -> tuple[str, ...]:
        if case.rehearsed:
            return (REHEARSED,)
        cores = strategy.num_replicas_in_sync
        return (f"TPU {tpu_of(os.environ)!r} ({cores} cores)",)


KIND = _Tpu()
