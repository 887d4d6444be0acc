"""Which task computes on which GPU: by rank, split where there are too few, and checked against their memory."""

from __future__ import annotations

import pytest

from simulator import Topology, UsageError
from simulator.hardware import Gpu, HardwareMissing
from simulator.hardware.sharing import GpuShare, gpu_shares


def _gpus(count: int, memory_mb: int = 4096) -> tuple[Gpu, ...]:
    return tuple(Gpu(index, f"GPU number {index}", memory_mb * 2**20) for index in range(count))


def test_tasks_take_gpus_in_their_order() -> None:
    """Each worker gets as many as it has replicas, and no two the same while there are enough."""
    shares = gpu_shares(Topology(worker=2, devices="gpu:2"), _gpus(4), {})
    assert shares == {"worker:0": GpuShare((0, 1)), "worker:1": GpuShare((2, 3))}


def test_tasks_without_gpus_take_none() -> None:
    """Chief and parameter servers compute on the CPU, and are not counted when GPUs are shared out."""
    topology = Topology(chief=1, worker=2, ps=1, devices={"worker": "gpu:1"})
    shares = gpu_shares(topology, _gpus(2), {})
    assert shares == {"chief:0": GpuShare(), "worker:0": GpuShare((0,)), "worker:1": GpuShare((1,)), "ps:0": GpuShare()}


def test_more_tasks_than_gpus_begin_again_at_the_first() -> None:
    """Whole GPUs are shared by growth, so that no task is given a part of one."""
    shares = gpu_shares(Topology(worker=3, devices="gpu:1"), _gpus(2), {})
    assert [share.gpus for share in shares.values()] == [(0,), (1,), (0,)]
    assert {share.memory_mb for share in shares.values()} == {0}


def test_one_gpu_is_split_where_replicas_need_more() -> None:
    """2048 MB for each logical device, or as much as the variable says."""
    local = Topology(devices="gpu:2")
    assert gpu_shares(local, _gpus(1, 8000), {}) == {"local:0": GpuShare((0,), 2048)}
    assert gpu_shares(local, _gpus(1), {"LOCKSTEP_GPU_MEMORY_MB": "512"}) == {"local:0": GpuShare((0,), 512)}


def test_a_split_is_no_larger_than_the_memory() -> None:
    """Three times 2048 MB of 4096 MB would wait for memory that never becomes free, so each part is smaller."""
    assert gpu_shares(Topology(devices="gpu:3"), _gpus(1), {}) == {"local:0": GpuShare((0,), 1365)}


def test_all_tasks_that_split_one_gpu_are_counted() -> None:
    """Two workers with two replicas each on one GPU are four logical devices in its memory."""
    shares = gpu_shares(Topology(worker=2, devices="gpu:2"), _gpus(1), {})
    assert shares == {"worker:0": GpuShare((0,), 1024), "worker:1": GpuShare((0,), 1024)}


@pytest.mark.parametrize(
    ("count", "memory_mb", "environ", "told"),
    [
        (0, 0, {}, "gpu devices were asked for, and TensorFlow sees none here"),
        (1, 150, {}, r"GPU 0 \(GPU number 0\) has 150 MB left, too little for 3 logical devices \(local:0 splits it"),
        (1, 4096, {"LOCKSTEP_GPU_MEMORY_MB": "2048"}, "3 logical devices of 2048 MB .* do not fit; set .* to 1365 or"),
    ],
)
def test_what_does_not_fit_is_refused(count: int, memory_mb: int, environ: dict[str, str], told: str) -> None:
    """Before anything starts, with what would fit."""
    with pytest.raises(HardwareMissing, match=told):
        gpu_shares(Topology(devices="gpu:3"), _gpus(count, memory_mb), environ)


@pytest.mark.parametrize("text", ["0", "-1", "2 GB", "1e3"])
def test_a_limit_that_is_no_number_is_refused(text: str) -> None:
    """A typo is not taken for the default."""
    with pytest.raises(UsageError, match=r"LOCKSTEP_GPU_MEMORY_MB='.*' is not a whole number of megabytes from 1 to"):
        gpu_shares(Topology(devices="gpu:2"), _gpus(1), {"LOCKSTEP_GPU_MEMORY_MB": text})


def test_a_cluster_has_one_kind_of_gpu() -> None:
    """Real and simulated GPUs are not mixed: what a run shows would depend on the task."""
    with pytest.raises(UsageError, match="one cluster has one kind of GPU, not gpu and gpu-simulated"):
        Topology(chief=1, worker=1, devices={"chief": "gpu:1", "worker": "gpu-simulated:1"})
    assert Topology(worker=1, devices="gpu-simulated:2").gpu_kind == "gpu-simulated"
    assert Topology(chief=1, worker=1, ps=1).gpu_kind is None
