"""Damage to files at seeded places: what a crash, a full disk or a failing one leaves of a checkpoint."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from simulator.errors import UsageError

_BLOCK_BYTES = 64


@dataclass(frozen=True)
class Damage:
    """What was done to one file.

    Attributes:
        kind: one of `KINDS`.
        path: the file.
        offset: first byte that was changed or lost.
        length: number of bytes from there on that were changed or lost.
    """

    kind: str
    path: Path
    offset: int = 0
    length: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.path.name} at {self.offset}+{self.length}"


def flip_bit(path: Path, seed: int) -> Damage:
    """Turn over one bit at a seeded place.

    Raises:
        UsageError: the file is empty.
    """
    content = bytearray(_content(path))
    bit = random.Random(seed).randrange(8 * len(content))
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)
    return Damage("flip_bit", path, bit // 8, 1)


def truncate(path: Path, seed: int) -> Damage:
    """Cut the file off at a seeded place: at least one byte is left and at least one is lost, if it has two.

    Raises:
        UsageError: the file is empty.
    """
    content = _content(path)
    size = random.Random(seed).randrange(1, len(content)) if len(content) > 1 else 0
    path.write_bytes(content[:size])
    return Damage("truncate", path, size, len(content) - size)


def zero_block(path: Path, seed: int) -> Damage:
    """Set 64 bytes at a seeded place to zero, or the whole of a smaller file.

    A block that is zero already would be no damage, so the place is drawn among the bytes that are not.

    Raises:
        UsageError: the file is empty, or all of it is zero.
    """
    content = bytearray(_content(path))
    places = [place for place, byte in enumerate(content) if byte]
    if not places:
        raise UsageError(f"{path.name} holds only zeros; zeroing a block of it would change nothing")
    begin = min(random.Random(seed).choice(places), max(0, len(content) - _BLOCK_BYTES))
    end = min(len(content), begin + _BLOCK_BYTES)
    content[begin:end] = bytes(end - begin)
    path.write_bytes(content)
    return Damage("zero_block", path, begin, end - begin)


def empty(path: Path, seed: int = 0) -> Damage:
    """Leave the file with no content; `seed` changes nothing.

    Raises:
        UsageError: the file is empty already.
    """
    del seed
    length = len(_content(path))
    path.write_bytes(b"")
    return Damage("empty", path, 0, length)


def remove(path: Path, seed: int = 0) -> Damage:
    """Delete the file; `seed` changes nothing.

    Raises:
        UsageError: there is no such file.
    """
    del seed
    _check(path)
    length = path.stat().st_size
    path.unlink()
    return Damage("remove", path, 0, length)


def swap(path: Path, other: Path) -> Damage:
    """Exchange the contents of two files.

    Raises:
        UsageError: a file is missing, or both have the same content.
    """
    _check(path)
    _check(other)
    one, two = path.read_bytes(), other.read_bytes()
    if one == two:
        raise UsageError(f"{path.name} and {other.name} have the same content; swapping them would change nothing")
    path.write_bytes(two)
    other.write_bytes(one)
    return Damage("swap", path, 0, len(one))


def replace(path: Path, content: bytes) -> Damage:
    """Put other content into the file, such as that of an older `checkpoint` file.

    Raises:
        UsageError: the file is missing, or has this content already.
    """
    _check(path)
    before = path.read_bytes()
    if before == content:
        raise UsageError(f"{path.name} has this content already")
    path.write_bytes(content)
    return Damage("replace", path, 0, len(before))


# The kinds of damage to one file, each a function of the file and a seed.
KINDS: dict[str, Callable[[Path, int], Damage]] = {
    "flip_bit": flip_bit,
    "truncate": truncate,
    "zero_block": zero_block,
    "empty": empty,
    "remove": remove,
}


def apply(kind: str, path: Path, seed: int = 0) -> Damage:
    """Damage one file.

    Raises:
        UsageError: there is no such kind, or this damage would not change the file.
    """
    if kind not in KINDS:
        raise UsageError(f"no damage {kind!r}; there are {', '.join(KINDS)}")
    return KINDS[kind](path, seed)


def _check(path: Path) -> None:
    if not path.is_file():
        raise UsageError(f"there is no file {path}")


def _content(path: Path) -> bytes:
    _check(path)
    content = path.read_bytes()
    if not content:
        raise UsageError(f"{path.name} is empty; there is nothing to damage")
    return content
