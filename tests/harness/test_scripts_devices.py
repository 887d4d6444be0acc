"""Unmodified scripts that count devices by hand, where others ask a strategy for its replicas."""

from __future__ import annotations

from typing import Any

import pytest

from harness.subject.script import Script
from simulator import Cluster, Topology
from tests.harness._loop import LOOP, Verified


def _counts(device_type: str) -> dict[str, Any]:
    """In a task: how many devices a script counts, and what is noted of that."""
    import tensorflow as tf

    from harness.recording.scripts.counts import ReplicaCount
    from harness.recording.scripts.device_counts import counted_devices, length
    from harness.recording.scripts.stand_ins import StandIns

    stand_ins = StandIns(Script(__file__, (), "/", replicas=3, device_type=device_type))
    stand_ins.asked_by_script = lambda: True  # type: ignore[method-assign]
    with counted_devices(stand_ins, ReplicaCount(3, stand_ins)):
        found = {
            "logical": 4 * length(tf.config.list_logical_devices(device_type)),
            "of another kind": length(tf.config.list_logical_devices("TPU")),
            "physical": length(tf.config.list_physical_devices(device_type)),
            "of a strategy": 4 * length(tf.distribute.MirroredStrategy(["/cpu:0"]).extended.worker_devices),
        }
    return {**found, "text": length("four"), "trust": [each.trust for each in stand_ins.found]}


@pytest.mark.parametrize(
    ("device_type", "physical", "trust"), [("CPU", 1, ["sure", "sure"]), ("GPU", 0, ["sure", "assumed", "sure"])]
)
def test_devices_are_counted_as_those_of_the_run(device_type: str, physical: int, trust: list[str]) -> None:
    """Of the kind that its replicas compute on; of real GPUs there may be more, or fewer, than replicas."""
    with Cluster(Topology(), timeout=60) as cluster:
        found = cluster.run(_counts, device_type)["local:0"].value
    counts = {"logical": 12, "of another kind": 0, "physical": physical, "of a strategy": 12, "text": 4}
    assert found == {**counts, "trust": trust}


@pytest.mark.full
@pytest.mark.parametrize(
    "listed", ['tf.config.list_logical_devices("CPU")', "strategy.extended.worker_devices"], ids=["config", "strategy"]
)
@pytest.mark.parametrize("wrong", [False, True])
def test_a_batch_of_so_many_devices_is_that_of_all_replicas(listed: str, wrong: bool, verified: Verified) -> None:
    """And what a replica divides by their number is divided by one on one device."""
    loop = LOOP.replace("BATCH = 4 * strategy.num_replicas_in_sync", f"DEVICES = len({listed})\nBATCH = 4 * DEVICES")
    loss = "tf.reduce_sum((tf.linalg.matvec(x, w) - y) ** 2) / BATCH"
    mean = loss.replace("reduce_sum", "reduce_mean").replace("BATCH", "DEVICES")
    loop = loop.replace(loss, mean.removesuffix(" / DEVICES") if wrong else mean)
    verdict = verified(loop, "mirrored-2", "1", explain=False, prove=False)
    assert verdict.outcome == ("inconsistent" if wrong else "consistent"), str(verdict)
