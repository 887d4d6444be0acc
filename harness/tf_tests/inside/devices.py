"""Which GPUs a task sees, where TensorFlow's runner shares them out (`share_gpu=False`)."""

from __future__ import annotations

import os

from simulator.agent.devices import physical_gpus

__all__ = ["look_again"]


def look_again() -> None:
    """See those that the runner has just named in `CUDA_VISIBLE_DEVICES`.

    TensorFlow lists CUDA's devices when it is first asked. Those of a pluggable library, as simulated GPUs are, it
    lists when it is imported, which was in the forkserver.
    """
    import tensorflow as tf

    if os.environ.get("CUDA_VISIBLE_DEVICES"):
        physical_gpus(tf)
