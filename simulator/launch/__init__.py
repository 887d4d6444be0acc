"""Ways to start a task's process; the forkserver starts Python functions."""

from simulator.launch.environment import environ_of
from simulator.launch.forkserver import (
    DEFAULT_PRELOAD,
    ForkedProcess,
    Forkserver,
    also_preload,
    at_import,
    fork,
    forkserver,
)
from simulator.wire.payload import pack, unpack

__all__ = [
    "DEFAULT_PRELOAD",
    "ForkedProcess",
    "Forkserver",
    "also_preload",
    "at_import",
    "environ_of",
    "fork",
    "forkserver",
    "pack",
    "unpack",
]
