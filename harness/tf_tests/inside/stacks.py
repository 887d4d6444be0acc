"""The stacks of a file's processes, written when one of its tests has had its time."""

from __future__ import annotations

import faulthandler
import os
import signal
from pathlib import Path

__all__ = ["SIGNAL", "answer", "read"]

SIGNAL = signal.SIGUSR1
_FOLDER = "stacks"


def answer(scratch: Path) -> None:
    """From now on write the stacks of all threads of this process at the signal."""
    folder = scratch / _FOLDER
    folder.mkdir(exist_ok=True)
    # Open for the life of the process.
    file = (folder / f"{os.getpid()}").open("w")
    faulthandler.register(SIGNAL, file=file, all_threads=True, chain=False)


def read(scratch: Path) -> dict[str, str]:
    """What has been written so far, by process id; empty where nothing has."""
    return {each.name: each.read_text(errors="replace") for each in sorted((scratch / _FOLDER).glob("*"))}
