"""What kind of hardware a task means by the words in which it says what it has computed on."""

from __future__ import annotations

from harness.subject.strategies.tpu import REHEARSED
from simulator.agent.devices import SIMULATED


def hardware_of(device: str) -> str:
    """`cpu`, `gpu`, `gpu-simulated`, `tpu` or `tpu-rehearsed`; what pretends to be a device is never one.

    Args:
        device: as of a task, such as `cpu:2`, or as of a cell of the matrix, which has no number.
    """
    if device == "cpu" or device.startswith("cpu:"):
        return "cpu"
    if device.startswith("TPU"):
        return "tpu-rehearsed" if device.startswith(REHEARSED) else "tpu"
    return "gpu-simulated" if SIMULATED in device else "gpu"


def ran_on(device: str, hardware: str) -> bool:
    """Whether this is what was asked for, where `auto` is any real GPU or TPU."""
    return hardware_of(device) in (("gpu", "tpu") if hardware == "auto" else (hardware,))
