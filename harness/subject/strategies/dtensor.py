"""DTensor: a mesh of devices with the axes `batch` and `model`, over which a program lays out its tensors itself."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from harness.subject.strategies.protocol import StrategyCase, StrategyKind
from simulator import Topology

BATCH, MODEL = "batch", "model"
"""The axes of every mesh, also where one of them, or each, has a single device."""


@dataclass(frozen=True)
class MeshStrategy:
    """What a program gets for a strategy: DTensor has none, and divides by layouts.

    Attributes:
        mesh: a `tf.experimental.dtensor.Mesh` of all devices.
    """

    mesh: Any

    @property
    def num_replicas_in_sync(self) -> int:
        """Into how many parts the batch is laid out."""
        return int(self.mesh.dim_size(BATCH))

    def experimental_local_results(self, value: Any) -> tuple[Any, ...]:
        """The value itself: a DTensor is whole wherever a program names it."""
        return (value,)


class _DTensor(StrategyKind):
    name = "dtensor"
    order = 70
    form = r"-(?:(?P<workers>[2-9])w|(?P<replicas>[1-9]))(?:x(?P<model>[1-9]))?"
    accepted = "dtensor-B, dtensor-BxM, dtensor-Ww, dtensor-WwxM"
    examples = ("dtensor-2", "dtensor-2x2", "dtensor-2w")
    clustered = True
    reference = "dtensor-1"
    steps_apart = "under DTensor a step computes with whole tensors, and nothing runs in replicas"
    on_mesh = True

    def topology(self, case: StrategyCase) -> Topology:
        return Topology(worker=case.workers if case.workers > 1 else 0, devices=case.device_text)

    def build(self, case: StrategyCase) -> Any:
        from tensorflow.experimental import dtensor

        axes = [(BATCH, case.replicas), (MODEL, case.model)]
        if case.workers == 1:
            return MeshStrategy(dtensor.create_mesh(axes, devices=case.device_names))
        cluster = json.loads(os.environ["TF_CONFIG"])
        os.environ["DTENSOR_JOBS"] = ",".join(cluster["cluster"]["worker"])
        os.environ["DTENSOR_CLIENT_ID"] = str(cluster["task"]["index"])
        dtensor.initialize_accelerator_system(case.device_type, num_logical_cpu_devices=case.devices)
        return MeshStrategy(dtensor.create_distributed_mesh(axes, device_type=case.device_type))

    def workers_seen(self, strategy: Any, case: StrategyCase) -> int:
        from tensorflow.experimental import dtensor

        return int(dtensor.num_clients())

    def local_replicas(self, strategy: Any, case: StrategyCase) -> int:
        return 1


KIND = _DTensor()
