"""The GPUs of one run: found, lent to it alone, and shared out among its tasks."""

from __future__ import annotations

import contextlib

from simulator.hardware.leases import leased
from simulator.hardware.seen import gpus, task_variables
from simulator.hardware.sharing import Share, shared_out, wanted
from simulator.topology import Topology

__all__ = ["lent_gpus"]


def lent_gpus(
    topology: Topology, stack: contextlib.ExitStack, timeout: float
) -> tuple[dict[str, Share], dict[str, str]]:
    """The GPUs of each task, lent to this run alone, and what lets the tasks see them.

    Args:
        topology: the tasks.
        stack: gives them back.
        timeout: seconds to wait for those that others have.

    Raises:
        HardwareMissing: there are none, or too small ones.
    """
    if (kind := topology.gpu_kind) is None:
        return {}, {}
    there = gpus(kind)
    if kind == "gpu":  # each process has simulated ones of its own
        there = stack.enter_context(leased(wanted(topology), there, timeout))
    return shared_out(topology, there), task_variables(kind)
