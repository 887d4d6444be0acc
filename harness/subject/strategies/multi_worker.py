"""`MultiWorkerMirroredStrategy`: replicas in several processes, which reduce their gradients by collectives."""

from __future__ import annotations

from typing import Any

from harness.subject.strategies.protocol import StrategyCase, StrategyKind
from simulator import Topology


class _MultiWorker(StrategyKind):
    name = "multi_worker"
    order = 40
    form = r"-(?P<workers>[1-9]\d?)(?:x(?P<replicas>[1-9]\d?))?(?::(?P<option>ring|auto|nccl))?"
    accepted = "multi_worker-W, multi_worker-WxD"
    options = "multi_worker-2:ring, :auto, :nccl"
    examples = (
        "multi_worker-2",
        "multi_worker-3",
        "multi_worker-4",
        "multi_worker-2x2",
        "multi_worker-2:ring",
        "multi_worker-2:nccl",
    )
    clustered = True
    reads_config = True
    draws_apart = True

    def topology(self, case: StrategyCase) -> Topology:
        return Topology(worker=case.workers, devices=case.device_text)

    def build(self, case: StrategyCase) -> Any:
        import tensorflow as tf

        implementation = tf.distribute.experimental.CommunicationImplementation[(case.option or "auto").upper()]
        options = tf.distribute.experimental.CommunicationOptions(implementation=implementation)
        return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)

    def workers_seen(self, strategy: Any, case: StrategyCase) -> int:
        resolver = strategy.cluster_resolver  # None for a strategy that knows no other workers
        return 1 if resolver is None else len(resolver.cluster_spec().as_dict().get("worker", []))


KIND = _MultiWorker()
