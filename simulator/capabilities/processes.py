"""Operating system features that tasks are started, watched and cleaned up with."""

from __future__ import annotations

import ctypes
import importlib.util
import multiprocessing
import os
import sys
from pathlib import Path

_PR_GET_PDEATHSIG = 2
# A 4-worker run keeps its traces and ring buffers well below this; container runtimes default to 64 MiB.
_DEV_SHM_BYTES_MIN = 64 * 2**20


def forkserver() -> str:
    """Return an empty string if functions can be run as tasks from a preloaded fork server, else why not."""
    absent = [name for name in ("multiprocess", "dill") if importlib.util.find_spec(name) is None]
    if absent:
        return f"not installed: {', '.join(absent)}"
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return f"Python on {sys.platform} cannot pass file descriptors over Unix sockets"
    return ""


def pdeathsig() -> str:
    """Return an empty string if a task can ask the kernel to die with its parent (prctl), else why not."""
    if not sys.platform.startswith("linux"):
        return f"prctl is a Linux call; this is {sys.platform}"
    held = ctypes.c_int()
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_GET_PDEATHSIG, ctypes.byref(held), 0, 0, 0) != 0:
        return f"prctl: {os.strerror(ctypes.get_errno())}"
    return ""


def pidfd() -> str:
    """Return an empty string if a process can be held by descriptor, so that its id is not reused, else why not."""
    if not hasattr(os, "pidfd_open"):
        return "this Python has no os.pidfd_open (Linux, kernel 5.3 or newer)"
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        return f"pidfd_open: {error.strerror}"
    return ""


def dev_shm(folder: Path = Path("/dev/shm")) -> str:  # noqa: S108 - this folder itself is what is examined
    """Return an empty string if there is a writable memory file system with some room, else why not."""
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        return f"{folder} is not a writable folder"
    space = os.statvfs(folder)
    free_bytes = space.f_bavail * space.f_frsize
    if free_bytes < _DEV_SHM_BYTES_MIN:
        return f"{folder} has {free_bytes // 2**20} MiB free, less than {_DEV_SHM_BYTES_MIN // 2**20} MiB"
    return ""
