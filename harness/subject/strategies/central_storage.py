"""`CentralStorageStrategy`: replicas in one process, with the one copy of every variable on the CPU."""

from __future__ import annotations

from typing import Any

from harness.subject.strategies.protocol import StrategyCase, StrategyKind


class _CentralStorage(StrategyKind):
    name = "central_storage"
    order = 30
    form = r"-(?P<replicas>[1-9]\d?)"
    accepted = "central_storage-R"
    examples = ("central_storage-2",)
    variables_on = "cpu"

    def build(self, case: StrategyCase) -> Any:
        import tensorflow as tf

        storage = tf.distribute.experimental.CentralStorageStrategy
        return storage(compute_devices=case.device_names, parameter_device="CPU:0")


KIND = _CentralStorage()
