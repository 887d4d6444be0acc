"""Where the data of a coordinator's workers began anew: after a worker came back, or the whole job did.

What a worker has made for itself, such as its data set and iterator, is gone with its process. TensorFlow makes it anew
when the worker is back (`Worker._on_worker_recovery` of tensorflow/python/distribute/coordinator/
cluster_coordinator.py), so that it reads its data from the beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from harness.evidence.found import traces_of
from harness.evidence.parts import INTERRUPTED, TRACES

__all__ = ["Rebuilt", "note_rebuilt", "read_rebuilt"]

Rebuilt = tuple[int, int]
"""How many steps the process had done, and the number of the worker."""

_FILE = "rebuilt.jsonl"


def note_rebuilt(folder: Path, steps: Callable[[], int]) -> Callable[[int], None]:
    """What takes down that a worker's own things were made anew, at once, since this process may be killed.

    Args:
        folder: of this process.
        steps: how many steps it has done.
    """
    (folder / _FILE).touch()

    def note(worker: int) -> None:
        with (folder / _FILE).open("ab") as file:
            file.write(msgspec.json.encode((steps(), worker)) + b"\n")

    return note


def read_rebuilt(directory: Path) -> list[tuple[Rebuilt, ...]]:
    """What each process of a run's coordinator has noted, in the order of its processes; steps are its own."""
    traces = directory / TRACES
    numbers = sorted(int(path.name) for path in traces.iterdir() if path.name.isdigit())
    folders = [directory / INTERRUPTED / TRACES, *(traces_of(traces, number) for number in (0, *numbers))]
    return [_read(folder / _FILE) for folder in folders if (folder / _FILE).exists()]


def _read(file: Path) -> tuple[Rebuilt, ...]:
    lines: Sequence[bytes] = file.read_bytes().splitlines()
    return tuple(msgspec.json.decode(line, type=Rebuilt) for line in lines)
