"""Digests of what each replica has at every step: 24 bytes a step, and 8 for each.

Those of its variables before the step, and maybe after it, tell when copies came to differ, and whether that was in a
step, or in memory between two steps. That of its examples tells whether it had the same ones at an earlier step.

A file begins with eight bytes that name its format. Each record has two checksums: of how long it is, and of the rest.
So a damaged record is never taken for one, and never for the end of the file. Nothing after it is read.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

VARIABLES, EXAMPLES = "digests", "given"
"""The files of a folder."""
_FORMAT = b"digests2"
_HEAD = struct.Struct("<QIHH")
_EACH = struct.Struct("<q")
_SUM = struct.Struct("<I")


class Digest(msgspec.Struct, frozen=True):
    """Of one step of a process.

    Attributes:
        step: its number, from 1.
        kind: counts how often other variables than before were digested: only those of one kind can be compared.
        begin: by local replica, of its variables before the step, or of its examples.
        end: by local replica, after it; empty where that would have taken too long.
    """

    step: int
    kind: int
    begin: tuple[int, ...]
    end: tuple[int, ...]


class DigestWriter:
    """Adds digests to those of a folder; it holds no file, so that the folder can be removed.

    Args:
        folder: of a process.
        of: `VARIABLES` or `EXAMPLES`.
    """

    def __init__(self, folder: Path, of: str = VARIABLES) -> None:
        self._path = folder / of
        self._data = bytearray()

    def write(self, digest: Digest) -> None:
        """Add one, which is in the file after `flush`."""
        head = _HEAD.pack(digest.step, digest.kind, len(digest.begin), len(digest.end))
        self._data += _sealed(head) + _sealed(b"".join(map(_EACH.pack, (*digest.begin, *digest.end))))

    def flush(self) -> None:
        """Have them where others can read them.

        Raises:
            OSError: they cannot be written.
        """
        data, self._data = bytes(self._data), bytearray()
        with self._path.open("ab") as file:
            file.write(data if file.tell() else _FORMAT + data)


def digests_of(folders: Iterable[Path], of: str = VARIABLES) -> Iterator[Sequence[Digest]]:
    """The digests of all processes that train together, step by step, as far as all of them have left them.

    A step of which one of them has none is left out.
    """
    readings = [_Reading(folder / of).digests() for folder in folders]
    every = [next(reading, None) for reading in readings]
    while found := [each for each in every if each is not None]:
        if len(found) < len(readings):
            return
        newest = max(each.step for each in found)
        if all(each.step == newest for each in found):
            yield found
            newest += 1
        several = zip(readings, found, strict=True)
        every = [next(reading, None) if each.step < newest else each for reading, each in several]


def damaged_from(folder: Path, of: str = VARIABLES, *, whole: bool) -> int | None:
    """The step from which on the digests of a folder cannot be read; None where all can that are there.

    Args:
        folder: of a process.
        of: as of `DigestWriter`.
        whole: whether the process writes no more, so that half a record is damage.

    Raises:
        FileNotFoundError: the folder has no such file.
    """
    reading = _Reading(folder / of)
    if not reading.path.exists():
        raise FileNotFoundError(reading.path)
    last = max((each.step for each in reading.digests()), default=0)
    return last + 1 if reading.is_damaged or (whole and reading.is_cut) else None


class _Reading:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_damaged = False
        self.is_cut = False

    def digests(self) -> Iterator[Digest]:
        """All before the first that is damaged, or not there as a whole."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        except OSError:
            self.is_damaged = True
            return
        with file:
            begins = file.read(len(_FORMAT))
            self.is_damaged, self.is_cut = not _FORMAT.startswith(begins), len(begins) < len(_FORMAT)
            while (head := self._part(file, _HEAD.size)) is not None:
                step, kind, begin, end = _HEAD.unpack(head)
                data = self._part(file, (begin + end) * _EACH.size)
                if data is None:
                    self.is_cut = True
                    return
                found = tuple(each for (each,) in _EACH.iter_unpack(data))
                yield Digest(step, kind, found[:begin], found[begin:])

    def _part(self, file: BinaryIO, size: int) -> bytes | None:
        """What is read of a record, without its checksum; None if there is none, or it is damaged."""
        if self.is_damaged:
            return None
        data = file.read(size + _SUM.size)
        if len(data) < size + _SUM.size:
            self.is_cut |= bool(data)
            return None
        self.is_damaged = _sealed(data[:size]) != data
        return None if self.is_damaged else data[:size]


def _sealed(data: bytes) -> bytes:
    return data + _SUM.pack(zlib.crc32(data))
