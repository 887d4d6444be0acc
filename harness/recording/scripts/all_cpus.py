"""`CentralStorageStrategy()` on all logical CPU devices, as it takes all GPUs of a machine that has any.

Without GPUs it takes one CPU, whatever logical devices there are (`device_util.local_devices_from_num_gpus` of none);
`MirroredStrategy()` takes them all by itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.patches import patched

__all__ = ["all_cpus"]


@contextlib.contextmanager
def all_cpus(count: int) -> Iterator[None]:
    """Within this context the strategy computes on so many CPU devices where the script names none."""
    from tensorflow.python.distribute import central_storage_strategy

    devices = [f"/cpu:{index}" for index in range(count)]

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, compute_devices: Any = None, parameter_device: Any = None) -> None:
            original(self, compute_devices or devices, parameter_device)

        return init

    with patched(central_storage_strategy.CentralStorageStrategy, "__init__", around):
        yield
