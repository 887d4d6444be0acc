"""Where a task leaves the evidence of its steps: one file a step, which is there as a whole or not at all.

The file begins with the length of its record, in eight bytes, then comes the record, then the arrays that no earlier
file has. An array is known by its content, so that a variable which a step leaves as it is costs nothing. A file that
ends in `.part` tells that its step has begun, or would, so that nothing is added to those before.
"""

from __future__ import annotations

import functools
import hashlib
import shutil
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from harness.errors import NoRoom
from harness.evidence.memory_map import map_file, note_access
from harness.evidence.steps.records import PlaceValue, StepEvidence, Stored

if TYPE_CHECKING:
    import numpy as np


_LENGTH, _SEAL = struct.Struct("<Q"), struct.Struct("<I")
SUFFIX, PART = ".step", ".part"
_SPARE = 16
"""As many steps of the same size must fit before one is written."""
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(StepEvidence)


def evidence_folder(trace: Path) -> Path:
    """Where the evidence of the steps is that the client took which left this trace."""
    return trace.with_suffix(".steps")


class EvidenceWriter:
    """Adds steps to a store.

    Args:
        folder: of the store; it is made.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._known: dict[bytes, Stored] = {}
        self._arrays: list[bytes] = []
        self._size = 0
        self._file = 1
        self._published: StepEvidence | None = None
        self._written = 0

    def put(self, value: Any) -> Stored:
        """Where an array is, or will be when the step is published that is being written."""
        import numpy as np

        array = np.asarray(value)
        data = data_of(array)
        kind = f"{array.dtype.name}{array.shape}".encode()
        key = hashlib.blake2b(data, digest_size=16, key=kind[:64]).digest()
        if (known := self._known.get(key)) is None:
            known = Stored(array.dtype.name, tuple(array.shape), self._file, self._size, len(data))
            self._known[key] = known
            self._arrays.append(data)
            self._size += len(data)
        return known

    def publish(self, step: StepEvidence) -> None:
        """Write a step as far as it is known, and the arrays that were put since the one before.

        Raises:
            NoRoom: the disk would be nearly full with it.
            OSError: it cannot be written.
        """
        if step == self._published and self._written == len(self._arrays):
            return
        if (free := shutil.disk_usage(self._folder).free) < _SPARE * self._size:
            self._known = {key: known for key, known in self._known.items() if known.file != self._file}
            raise NoRoom.of(str(self._folder), _SPARE * self._size, free, "the evidence of a step is to be left")
        written(self._folder / f"{step.index}{SUFFIX}", step, self._arrays)
        self._published, self._written = step, len(self._arrays)

    def begin(self, index: int) -> None:
        """Arrays that are put from now on are of this step, and nothing more comes of those before."""
        if index != self._file:
            self._arrays, self._size, self._file, self._written = [], 0, index, 0
        (self._folder / f"{index}{PART}").touch()


def data_of(array: np.ndarray[Any, Any]) -> bytes:
    """The bytes of an array in a store."""
    import numpy as np

    if array.dtype.hasobject:
        return _ENCODER.encode([_plain(each) for each in array.reshape(-1)])
    return np.ascontiguousarray(array).tobytes()


def written(path: Path, step: StepEvidence, arrays: Sequence[bytes], *, sealed: bool = False) -> int:
    """Write the file of a step, which is there under its name when all of it is; how many bytes it has.

    Args:
        path: of the file.
        step: its record.
        arrays: that it has.
        sealed: whether it ends in a checksum of all the rest, since it may lie around for long.

    Raises:
        OSError: it cannot be written.
    """
    record, temporary = _ENCODER.encode(step), path.with_suffix(PART)
    parts = [_LENGTH.pack(len(record)), record, *arrays]
    if sealed:
        parts.append(_SEAL.pack(functools.reduce(lambda sum_, part: zlib.crc32(part, sum_), parts, 0)))
    with temporary.open("wb") as file:
        file.writelines(parts)
    temporary.replace(path)
    return sum(map(len, parts))


def _plain(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


class EvidenceReader:
    """Reads a store, as far as it has been published.

    Args:
        folder: of the store.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._files: dict[int, memoryview] = {}

    @property
    def steps(self) -> int:
        """How many there are now."""
        return sum(1 for _ in self._folder.glob(f"*{SUFFIX}"))

    def step(self, index: int) -> StepEvidence | None:
        """That of a step, from 1; None if there is none.

        Raises:
            ValueError: the file is damaged.
        """
        path = self._folder / f"{index}{SUFFIX}"
        if not path.exists():
            return None
        data = self._mapped(index)
        try:
            (length,) = _LENGTH.unpack_from(data)
            return _DECODER.decode(data[_LENGTH.size : _LENGTH.size + length])
        except (msgspec.MsgspecError, struct.error) as error:
            raise ValueError(f"{path} is damaged: {error}") from error

    def check(self, index: int) -> None:
        """Read all of a sealed step.

        Raises:
            ValueError: it is not as it was written.
        """
        data = self._mapped(index)
        if len(data) < _SEAL.size or _SEAL.pack(zlib.crc32(data[: -_SEAL.size])) != data[-_SEAL.size :]:
            raise ValueError(f"the file of step {index} is not as it was written: its checksum is another one")

    def is_closed(self, index: int) -> bool:
        """Whether a later step has begun, so that nothing is added to this one."""
        later = self._folder / f"{index + 1}{PART}"
        return later.exists() or later.with_suffix(SUFFIX).exists()

    def array(self, stored: Stored) -> np.ndarray[Any, Any]:
        """An array of the store, which must not be written to."""
        import numpy as np

        data = self._mapped(stored.file)
        (length,) = _LENGTH.unpack_from(data)
        begin = _LENGTH.size + length + stored.begin
        piece = data[begin : begin + stored.size]
        note_access(stored.size)
        if stored.dtype == "object":
            found = np.empty(len(values := msgspec.msgpack.decode(piece, type=list[bytes])), object)
            found[:] = values
            return found.reshape(stored.shape)
        return np.frombuffer(piece, _dtype(stored.dtype)).reshape(stored.shape)

    def arrays(self, passed: PlaceValue) -> Sequence[np.ndarray[Any, Any]]:
        """What passed a place."""
        return [self.array(stored) for stored in passed.arrays]

    def _mapped(self, index: int) -> memoryview:
        if index not in self._files:
            self._files[index] = map_file(self._folder / f"{index}{SUFFIX}")
        return self._files[index]


def _dtype(name: str) -> np.dtype[Any]:
    import numpy as np

    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes  # TensorFlow needs it: bfloat16 and float8

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return found
