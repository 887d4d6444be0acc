"""A GPU that is none: TensorFlow takes it for one, its memory is the host's and its arithmetic the CPU's.

TensorFlow loads the library named by `TF_PLUGGABLE_DEVICE_LIBRARY_PATH` when it is imported. What it does with devices
of the type GPU is then exercised without one: placement, copies between host and device, memory growth and limits,
splits, visible devices, and the strategies' own branches for GPUs. What cannot be had on it: XLA, cuDNN's layouts and
recurrent layers, the arithmetic and the races of CUDA, NCCL, TF32, and speed.
"""

from simulator.hardware.simulated.building import NotBuilt, library
from simulator.hardware.simulated.variables import (
    COUNT_VARIABLE,
    LIBRARY_VARIABLE,
    MEMORY_VARIABLE,
    variables,
)

__all__ = ["COUNT_VARIABLE", "LIBRARY_VARIABLE", "MEMORY_VARIABLE", "NotBuilt", "library", "variables"]
