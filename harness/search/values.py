"""The values that the keys of each kind are drawn from, the simplest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.running.disturbance import RECORD

__all__ = ["VALUES"]

# The simplest value of each key first: Hypothesis draws it first, and a plan is shrunk towards it. Durations are on
# both sides of TensorFlow's detection of a silent task, which takes about 10 s.
_DURATIONS = ("1s", "300ms", "12s")
VALUES: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "crash": {"how": ("exception", "exit", "segfault")},
    "crash_loop": {"times": (2, 3)},
    "delay": {"delay": ("10ms", "5ms", "100ms"), "duration": _DURATIONS},
    "disk_full": {"size": ("64KiB", "1B"), "duration": _DURATIONS},
    "flap": {"mode": ("hold", "reset", "blackhole"), "times": (2, 3)},
    "jitter": {"jitter": ("20ms", "10ms"), "duration": _DURATIONS},
    "late_start": {"duration": ("1s", "300ms", "3s")},
    "partition": {"mode": ("hold", "reset", "refuse", "blackhole"), "duration": _DURATIONS},
    "pause": {"duration": _DURATIONS},
    "preempt": {"grace": ("1s", "100ms", "3s")},
    "rate": {"rate": ("1MB/s", "100KB/s"), "duration": _DURATIONS},
    "slow": {"per_step": ("20ms", "100ms"), "duration": _DURATIONS},
    "stall": {"duration": ("1s", "300ms", "3s")},
    "torn_checkpoint": {
        "directory": (RECORD,),
        "damage": ("flip_bit", "truncate", "zero_block", "empty", "remove", "stale"),
        "file": ("*.data-*", "*.index"),
    },
}
