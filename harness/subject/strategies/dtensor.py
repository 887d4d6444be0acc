"""DTensor: a mesh of devices with the axes `batch` and `model`, over which a program lays out its tensors itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.subject.strategies.protocol import StrategyCase, StrategyKind

__all__ = ["BATCH", "KIND", "MODEL", "MeshStrategy"]

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
    form = r"-(?P<replicas>[1-9])(?:x(?P<model>[1-9]))?"
    accepted = "dtensor-B, dtensor-BxM"
    examples = ("dtensor-2", "dtensor-2x2")
    reference = "dtensor-1"
    steps_apart = "under DTensor a step computes with whole tensors, and nothing runs in replicas"
    on_mesh = True

    def build(self, case: StrategyCase) -> Any:
        from tensorflow.experimental import dtensor

        axes = [(BATCH, case.replicas), (MODEL, case.model)]
        return MeshStrategy(dtensor.create_mesh(axes, devices=case.device_names))

    def local_replicas(self, strategy: Any, case: StrategyCase) -> int:
        return 1


KIND = _DTensor()
