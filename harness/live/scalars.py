"""Scalars for TensorBoard, in its own format: TensorFlow is not loaded where steps are judged."""

from __future__ import annotations

import math
import os
import socket
import struct
import time
from collections.abc import Sequence
from pathlib import Path

from harness.live.findings import StepJudged

_POLYNOMIAL, _MASK = 0x82F63B78, 0xA282EAD8
_VERSION = b"brain.Event:2"
_LARGEST = 3.4e38
_OURS = ".lockstep"


class Scalars:
    """`lockstep/worst_ratio` and `lockstep/steps_judged`, in a file of its own for each process and start of the job.

    Args:
        folder: that TensorBoard is given; of a job that was started again, later starts have folders in it.
        judged: the steps that earlier judges have judged. They count, and are written where none has written any yet.

    Raises:
        OSError: they cannot be written.
    """

    def __init__(self, folder: Path, judged: Sequence[StepJudged]) -> None:
        self._folder = folder
        self._counted: set[tuple[int, int]] = set()
        self._name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}{_OURS}"
        if any(any(folder.glob(f"{each}events.out.tfevents.*{_OURS}")) for each in ("", "start-*/")):
            self._counted.update((each.training, each.step) for each in judged if not each.by_digest)
            return
        for each in judged:
            self.add(each)

    def add(self, step: StepJudged) -> None:
        """Write what is known of a step.

        Raises:
            OSError: it cannot be written.
        """
        if step.by_digest:
            return
        self._counted.add((step.training, step.step))
        values = {"lockstep/steps_judged": float(len(self._counted))}
        if step.worst_ratio is not None:
            values["lockstep/worst_ratio"] = step.worst_ratio
        folder = self._folder / f"start-{step.training + 1}" if step.training else self._folder
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / self._name
        begins = not file.exists()
        with file.open("ab") as events:
            if begins:
                events.write(_record(_clock() + _bytes(3, _VERSION)))
            summary = b"".join(_bytes(1, _bytes(1, name.encode()) + _float(2, of)) for name, of in values.items())
            events.write(_record(_clock() + b"\x10" + _whole(step.step) + _bytes(5, summary)))


def _clock() -> bytes:
    return b"\x09" + struct.pack("<d", time.time())


def _bytes(field: int, data: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _whole(len(data)) + data


def _float(field: int, value: float) -> bytes:
    # What float32 cannot have is infinite there.
    held = value if abs(value) < _LARGEST else math.copysign(math.inf, value)
    return bytes([field << 3 | 5]) + struct.pack("<f", held)


def _whole(number: int) -> bytes:
    """As Protocol Buffers write one: seven bits a byte, the lowest first."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _record(data: bytes) -> bytes:
    """As TFRecord files have one, with checksums of its length and of itself."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc(length)) + data + struct.pack("<I", masked_crc(data))


def masked_crc(data: bytes) -> int:
    """CRC-32C, turned around so that the checksum of data with checksums is none of those."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF
