"""`MirroredStrategy`: replicas in one process, each with a copy of every variable."""

from __future__ import annotations

from typing import Any

from harness.subject.strategies.protocol import StrategyCase, StrategyKind


class _Mirrored(StrategyKind):
    name = "mirrored"
    order = 20
    form = r"-(?P<replicas>[1-9]\d?)(?::(?P<option>hierarchical_copy|reduction_to_one_device|nccl))?"
    accepted = "mirrored-R"
    options = "mirrored-2:hierarchical_copy, :reduction_to_one_device, :nccl"
    examples = (
        "mirrored-1",
        "mirrored-2",
        "mirrored-3",
        "mirrored-4",
        "mirrored-2:hierarchical_copy",
        "mirrored-2:reduction_to_one_device",
        "mirrored-2:nccl",
    )

    def build(self, case: StrategyCase) -> Any:
        import tensorflow as tf

        ops = {
            None: lambda: None,
            "hierarchical_copy": tf.distribute.HierarchicalCopyAllReduce,
            "reduction_to_one_device": tf.distribute.ReductionToOneDevice,
            "nccl": tf.distribute.NcclAllReduce,
        }
        return tf.distribute.MirroredStrategy(case.device_names, cross_device_ops=ops[case.option]())


KIND = _Mirrored()
