"""One training under every strategy that the GPUs allow: its speed, and whether it can be repeated bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from statistics import median

from harness.certifying.certificate import Trial
from harness.certifying.training import train
from harness.evidence.reproduced import first_difference
from harness.evidence.trace import RunTrace
from harness.running.observe import observe
from simulator import LockstepError

__all__ = ["strategies_for", "trials"]

_TRACED_STEPS = 2


def strategies_for(gpus: int) -> tuple[str, ...]:
    """One of each kind that runs in step, with as many replicas as there are GPUs, two at least; NCCL needs two."""
    replicas = max(2, min(gpus, 8))
    plain = ("one_device", f"mirrored-{replicas}", "central_storage-2", f"multi_worker-{min(replicas, 4)}")
    nccl = (f"mirrored-{replicas}:nccl", f"multi_worker-{min(replicas, 4)}:nccl")
    return (*plain, *(nccl if gpus >= replicas else ()))


def trials(hardware: str, gpus: int, timeout: float) -> Iterator[Trial]:
    """Each strategy's, one after the other."""
    for name in strategies_for(gpus):
        try:
            runs = [observe(train, name, hardware=hardware, timeout=timeout) for _ in range(2)]
        except LockstepError as error:
            yield Trial(name, None, bit_equal=False, difference=str(error).partition("\n")[0])
            continue
        parts = zip(*(run.clients for run in runs), strict=True)
        found = [difference.text for one, other in parts if (difference := first_difference(one, other)) is not None]
        yield Trial(name, _seconds_per_step(runs), not found, "".join(found[:1]), _peaks(runs[0]))


def _seconds_per_step(runs: list[RunTrace]) -> float:
    """Of the first client, between the records of its steps."""
    times = [[step.at for step in run.clients[0].steps][_TRACED_STEPS:] for run in runs]
    return median(later - earlier for each in times for earlier, later in pairwise(each))


def _peaks(run: RunTrace) -> dict[str, int]:
    placed = {client.header.task: client.counters.placement for client in run.clients}
    return {
        f"{task} {device}": size
        for task, placement in placed.items()
        if placement is not None
        for device, size in placement.peak_bytes.items()
    }
