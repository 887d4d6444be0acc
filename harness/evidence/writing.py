"""Writing a trace file, frame by frame: what `harness.evidence.trace` reads."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import BinaryIO

import msgspec

from harness.errors import NoRoom, TooLarge
from harness.evidence.arrays import arrays_in
from harness.evidence.trace import LENGTH, ClientTrace, Frame, Header, Seen, Step, Variable, with_variables
from simulator.units import format_size

_ENCODER = msgspec.msgpack.Encoder()
# What the length before a frame can say.
_FRAME_BYTES_MAX = 2 ** (8 * LENGTH.size) - 1


class TraceWriter:
    """Appends frames to a trace file, each flushed to the operating system before `write` returns.

    Args:
        path: of the file.
        beside: how many more files of its size its disk has to have room for. Nobody knows how many steps a program
            takes, so this is looked at with each of them.
    """

    def __init__(self, path: Path, beside: int = 0) -> None:
        self._path = path
        self._beside = beside
        self._steps = 0
        self._task = ""
        self._file: BinaryIO = path.open("ab", buffering=0)

    def write(self, frame: Frame) -> None:
        """Append one frame; a kill of this process afterwards cannot lose it.

        Raises:
            TooLarge: it takes more bytes than a frame may have.
            NoRoom: what has to fit beside this file does not any more.
            OSError: nor does the file itself.
        """
        written = bytearray(LENGTH.size)
        # There is one copy of it, which may be of a large model.
        packed = with_variables(frame, Variable.packed)
        try:
            _ENCODER.encode_into(packed, written, LENGTH.size)
        except OverflowError:  # of one array
            raise self._too_large(packed) from None
        if len(written) - LENGTH.size > _FRAME_BYTES_MAX:
            raise self._too_large(packed)
        LENGTH.pack_into(written, 0, len(written) - LENGTH.size)
        if isinstance(frame, Header):
            self._task = frame.task
        rest = memoryview(written)
        try:
            # Where the disk becomes full a part is written, and only the next attempt fails.
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise OSError(error.errno, f"what was recorded cannot be kept: {error.strerror}", str(self._path)) from None
        if self._beside:
            self._steps += isinstance(frame, (Step, Seen))
            self._check_room()

    def _too_large(self, frame: Frame) -> TooLarge:
        at = f"at step {frame.index}" if isinstance(frame, (Step, Seen)) else "besides its steps"
        return TooLarge(self._task, at, sum(array.data.nbytes for array in arrays_in(frame)), _FRAME_BYTES_MAX)

    def _check_room(self) -> None:
        disk, size = os.fstatvfs(self._file.fileno()), self._file.tell()
        free = disk.f_bavail * disk.f_frsize
        if self._beside * size > free:
            steps = f"{self._steps} step{'' if self._steps == 1 else 's'}"
            recorded = f"the reference has recorded {format_size(size)} in {steps}"
            why = f"{recorded}, and the other runs take {self._beside} times that"
            raise NoRoom.of(str(self._path.parent), self._beside * size, free, why)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def write_client(path: Path, trace: ClientTrace) -> None:
    """Write a whole trace to a new file, as its recorder would have."""
    path.unlink(missing_ok=True)
    with contextlib.closing(TraceWriter(path)) as writer:
        for frame in (
            trace.header,
            trace.start,
            *trace.starts,
            *trace.seen,
            *trace.evaluated,
            *trace.steps,
            trace.final,
            trace.counters,
        ):
            if frame is not None:
                writer.write(frame)
