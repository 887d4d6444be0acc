"""Digests of what each replica has at every step: 16 bytes a step, and 8 for each.

Those of its variables before the step, and maybe after it, tell when copies came to differ, and whether that was in a
step, or in memory between two steps. That of its examples tells whether it had the same ones at an earlier step.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

VARIABLES, EXAMPLES = "digests", "given"
"""The files of a folder."""
_HEAD = struct.Struct("<QIHH")
_EACH = struct.Struct("<q")


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
        self._data += head + b"".join(map(_EACH.pack, (*digest.begin, *digest.end)))

    def flush(self) -> None:
        """Have them where others can read them.

        Raises:
            OSError: they cannot be written.
        """
        data, self._data = bytes(self._data), bytearray()
        with self._path.open("ab") as file:
            file.write(data)


def digests_of(folders: Iterable[Path], of: str = VARIABLES) -> Iterator[Sequence[Digest]]:
    """The digests of all processes that train together, step by step, as far as all of them have left them."""
    yield from zip(*(_read(folder / of) for folder in folders), strict=False)


def _read(path: Path) -> Iterator[Digest]:
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        while len(head := file.read(_HEAD.size)) == _HEAD.size:
            step, kind, begin, end = _HEAD.unpack(head)
            data = file.read((begin + end) * _EACH.size)
            if len(data) < (begin + end) * _EACH.size:
                return
            found = tuple(each for (each,) in _EACH.iter_unpack(data))
            yield Digest(step, kind, found[:begin], found[begin:])
