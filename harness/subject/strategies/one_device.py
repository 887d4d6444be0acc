"""`OneDeviceStrategy`: one replica, placed explicitly."""

from __future__ import annotations

from typing import Any

from harness.subject.strategies.protocol import StrategyCase, StrategyKind


class _OneDevice(StrategyKind):
    name = "one_device"
    order = 10
    accepted = "one_device"
    examples = ("one_device",)

    def build(self, case: StrategyCase) -> Any:
        import tensorflow as tf

        return tf.distribute.OneDeviceStrategy(f"/device:{case.device_names[0]}")


KIND = _OneDevice()
