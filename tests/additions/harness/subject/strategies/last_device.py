"""`OneDeviceStrategy` on the last of several devices."""

from __future__ import annotations

from typing import Any

from harness.subject.strategies.protocol import StrategyCase, StrategyKind


class _LastDevice(StrategyKind):
    name = "last_device"
    order = 15
    form = r"-(?P<replicas>[2-9])"
    accepted = "last_device-N"
    examples = ("last_device-2",)

    def replicas(self, case: StrategyCase) -> int:
        return 1

    def build(self, case: StrategyCase) -> Any:
        import tensorflow as tf

        return tf.distribute.OneDeviceStrategy(f"/device:{case.device_names[-1]}")


KIND = _LastDevice()
