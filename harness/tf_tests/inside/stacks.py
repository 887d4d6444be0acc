"""The stacks of a file's processes, written when one of its tests has had its time."""

from __future__ import annotations

import faulthandler
import os
import re
import signal
from pathlib import Path

SIGNAL = signal.SIGUSR1
_FOLDER = "stacks"
# What a thread runs stands above the two functions of `threading` that call it.
_OWN = re.compile(r'/(harness|simulator)/[^"\n]*", line \d+ in \w+\n[^\n]*threading.py", line \d+ in run\n')


def answer(scratch: Path) -> None:
    """From now on write the stacks of all threads of this process at the signal."""
    folder = scratch / _FOLDER
    folder.mkdir(exist_ok=True)
    # Open for the life of the process.
    file = (folder / f"{os.getpid()}").open("w")
    faulthandler.register(SIGNAL, file=file, all_threads=True, chain=False)


def read(scratch: Path) -> dict[str, str]:
    """What has been written so far, by process id; empty where nothing has.

    The main thread comes first, which faulthandler has last, and threads of Lockstep's own are left out.
    """
    return {each.name: _sorted(each.read_text(errors="replace")) for each in sorted((scratch / _FOLDER).glob("*"))}


def _sorted(text: str) -> str:
    threads = [each for each in text.rstrip().split("\n\n") if not _OWN.search(each)]
    return "\n\n".join(reversed(threads))
