"""Inside a task that was started again during a run: where its trace goes, and what it has found."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

FOUND = "found.json"


class FoundFiles(msgspec.Struct, frozen=True):
    """When the process noted it, and when each file that it found was last written, in seconds of CLOCK_MONOTONIC
    of the process that holds the run.
    """

    began: float
    files: dict[str, float]


def traces_of(traces: Path, incarnation: int) -> Path:
    """Where an incarnation leaves its traces: the first one where a run without restarts does."""
    return traces if incarnation == 0 else traces / str(incarnation)


def note_found(folder: Path, task: str, directory: Path, now: float) -> None:
    """Note, in a task that was started again, the files that it finds and when each was last written.

    Args:
        folder: where the note goes.
        task: its name.
        directory: where it looks.
        now: the time, in seconds of CLOCK_MONOTONIC of the process that holds the run.
    """
    found = {
        str(file.relative_to(directory)): file.stat().st_mtime
        for file in sorted(directory.rglob("*"))
        if file.is_file() and file.stat().st_size
    }
    note_files_found(folder, task, found, now)


def note_files_found(folder: Path, task: str, files: Mapping[str, float], now: float) -> None:
    """Note them; when they were written is in seconds since the epoch, `now` as of `note_found`."""
    # Files have the time of day, traces the monotonic clock.
    ahead = time.time() - now
    found = {name: at - ahead for name, at in files.items()}
    (folder / f"{task.replace(':', '-')}.{FOUND}").write_bytes(msgspec.json.encode(FoundFiles(now, found)))
