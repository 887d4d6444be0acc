"""A small file system for tests of what happens when there is no room: in memory, without privileges, seen by one
process and those that it starts.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from _lockstep.children import child_command
from simulator import kernel
from simulator.errors import LockstepError


def see_small_disk(disk: Path, size: int) -> None:
    """Have this process, and those it starts, see an empty file system of so many bytes in the directory `disk`.

    It makes user and mount namespaces for it, so the process must have one thread only.

    Raises:
        OSError: this machine does not permit it.
    """
    user, group = os.getuid(), os.getgid()
    kernel.unshare(kernel.NEW_USER | kernel.NEW_MOUNTS)
    kernel.map_user(0, user, 0, group)
    kernel.keep_mounts_private()
    kernel.mount_memory(str(disk), size)


def call_on_small_disk(module: str, disk: Path, size: int, *arguments: str, timeout: float = 120.0) -> Any:
    """Call `module.main(disk, *arguments)` in a process for which `disk` is a small file system.

    Args:
        module: its name; the process finds modules where this one does.
        disk: a directory, which is made.
        size: of the file system, in bytes.
        arguments: for `main`.
        timeout: in seconds.

    Returns:
        What `main` returns, through JSON.

    Raises:
        LockstepError: it failed; the message is what it wrote to stderr.
    """
    disk.mkdir()
    command = child_command(__name__, module, str(disk), str(size), *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode != 0:
        raise LockstepError(f"{module}.main failed on a small file system:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def main(module: str, disk: str, size: str, *arguments: str) -> None:
    """What the process of `call_on_small_disk` does; it prints what the call returns, as JSON, in a line of its own."""
    see_small_disk(Path(disk), int(size))
    found = importlib.import_module(module).main(Path(disk), *arguments)
    sys.stdout.write("\n" + json.dumps(found) + "\n")
