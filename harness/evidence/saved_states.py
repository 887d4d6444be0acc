"""What checkpoints of a training have, as far as a number for each variable tells: a line for each that is saved."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import numpy as np

_FILE = "saved.jsonl"
BITS = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}
"""By the size of a dtype that as which its bits are added up."""


class SavedState(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the first replica of a process had when it saved a checkpoint.

    Attributes:
        step: the one before, from 1.
        sums: by variable, as of `called`, its bits, added up as whole numbers that wrap around; as of `sum_of`.
        goes_on: whether it was not saved then: so the next step began after a checkpoint.
    """

    step: int
    sums: dict[str, int]
    goes_on: bool = False

    def unlike(self, other: SavedState) -> set[str]:
        """The variables of both that have other sums."""
        return {name for name, each in self.sums.items() if other.sums.get(name, each) != each}


def called(name: str, number: int) -> str:
    """How a variable is called, of which several may have one name."""
    return f"{name}#{number}"


def sum_of(array: np.ndarray[Any, Any]) -> int:
    """The bits of an array, added up: in 32 bits, or 64 where an element has these."""
    import numpy as np

    wide = np.int64 if array.itemsize == 8 else np.int32
    bits = array if array.dtype == bool else np.ascontiguousarray(array).view(BITS[array.itemsize])
    return int(bits.sum(dtype=wide))


def leave(folder: Path, state: SavedState) -> None:
    """Add one to those of a folder.

    Raises:
        OSError: it cannot be written.
    """
    with (folder / _FILE).open("ab") as file:
        file.write(msgspec.json.encode(state) + b"\n")


def saved_states(folder: Path) -> Iterator[SavedState]:
    """Those of a folder, the oldest first; a line that is damaged, or not there as a whole, is left out."""
    with contextlib.suppress(FileNotFoundError):
        for line in (folder / _FILE).read_bytes().splitlines():
            with contextlib.suppress(msgspec.MsgspecError):
                yield msgspec.json.decode(line, type=SavedState)
