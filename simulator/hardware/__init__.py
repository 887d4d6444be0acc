"""The GPUs that tasks compute on: what TensorFlow sees of them, which task gets which, and simulated ones."""

from simulator.errors import HardwareMissing
from simulator.hardware.detecting import Gpu, gpus

__all__ = ["Gpu", "HardwareMissing", "gpus"]
