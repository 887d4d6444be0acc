"""Steps that are left one by one, each whole in a file of its own: any of them can be removed, or read without others.

A thread of its own writes them, so that a training does not wait for a disk. While one is being written no other begins
to be, so that no more than one is in memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from harness.evidence.steps.records import StepEvidence, Stored
from harness.evidence.steps.store import PART, SUFFIX, EvidenceReader, data_of, written
from simulator.threads import Worker
from simulator.units import format_size

_PATIENCE_SECONDS = 60.0
_Part = TypeVar("_Part")


class StepFileWriter:
    """Leaves steps in a folder, as of `harness.evidence.steps.EvidenceWriter`.

    Args:
        note: hears a sentence where one could not be left.

    Attributes:
        folder: where they are left, once that is known.
        room: bytes that they may take. Of more the oldest are removed.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self.folder: Path | None = None
        self.room = 0
        self._note = note
        self._arrays: list[bytes] = []
        self._size = 0
        self._file = 0
        self._writing: Worker | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a step is still being written."""
        return self._writing is not None and not self._writing.ends(0.0)

    def begin(self, index: int) -> None:
        """See `EvidenceWriter`."""
        self._arrays, self._size, self._file = [], 0, index

    def put(self, value: Any) -> Stored:
        """Where a copy of an array will be."""
        import numpy as np

        array = np.array(value)
        stored = Stored(array.dtype.name, tuple(array.shape), self._file, self._size, len(data := data_of(array)))
        self._arrays.append(data)
        self._size += stored.size
        return stored

    def publish(self, step: StepEvidence) -> None:
        """Begin to write a step, which is there under its name when all of it is."""
        assert self.folder is not None
        path = self.folder / f"{step.index}{SUFFIX}"
        self._writing = Worker.started("evidence", partial(self._write, path, step, self._arrays))
        self._arrays = []

    def _write(self, path: Path, step: StepEvidence, arrays: list[bytes]) -> None:
        try:
            size = written(path, step, arrays, sealed=True)
            self._make_room(path)
        except OSError as error:
            self._note(f"evidence could not be left in {path.parent}: {error.strerror}")
            with contextlib.suppress(OSError):
                path.with_suffix(PART).unlink()
        else:
            if size > self.room:
                self._note(f"the evidence of one step takes {format_size(size)}, and the room is less")

    def _make_room(self, newest: Path) -> None:
        sizes = {path: path.stat().st_size for path in loose_steps(newest.parent).values()}
        over = sum(sizes.values()) - self.room
        first = newest.with_name(f"1{SUFFIX}")  # by which it is known what a restart has lost
        for path in sorted(sizes.keys() - {newest}, key=lambda path: (path == first, int(path.stem))):
            if over <= 0:
                break
            path.unlink()
            over -= sizes[path]

    def close(self) -> None:
        """Wait for the last one, not for ever."""
        if self._writing is not None:
            self._writing.ends(_PATIENCE_SECONDS)


def loose_steps(folder: Path) -> dict[int, Path]:
    """Those of a folder by their numbers, the oldest first."""
    found = {int(path.stem): path for path in folder.glob(f"*{SUFFIX}") if path.stem.isdigit()}
    return dict(sorted(found.items()))


def renumbered(reader: EvidenceReader, step: StepEvidence, index: int, put: Callable[[Any], Stored]) -> StepEvidence:
    """A step in another store, under another number.

    Args:
        reader: of the store where it is.
        step: of that store.
        index: its number in the other one.
        put: adds an array to that.
    """
    moved = msgspec.structs.replace(_moved(step, lambda stored: put(reader.array(stored))), index=index)
    return msgspec.structs.replace(moved, original=step.index)


def _moved(part: _Part, move: Callable[[Stored], Stored]) -> _Part:
    """The same with each `Stored` in it moved."""
    if isinstance(part, Stored):
        return move(part)  # type: ignore[return-value]
    if isinstance(part, tuple):
        return tuple(_moved(each, move) for each in part)  # type: ignore[return-value]
    if isinstance(part, msgspec.Struct):
        return type(part)(**dict(_fields(part, move)))
    return part


def _fields(part: msgspec.Struct, move: Callable[[Stored], Stored]) -> Iterator[tuple[str, Any]]:
    for name in part.__struct_fields__:
        yield name, _moved(getattr(part, name), move)
