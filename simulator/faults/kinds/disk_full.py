"""A full disk: no file of the task can grow beyond a size, or the file system itself has no room left."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from simulator.errors import UsageError
from simulator.faults.kinds._limits import bind, lift, refused
from simulator.faults.protocol import LASTING, Effect, NoEffect, Scene, TaskFault
from simulator.units import format_size, parse_size

# Filling takes the room from everybody else on the machine, and memory where the file system is in memory.
_FILLED_BYTES_MAX = 4 * 2**30
_ROUND_BYTES = 2**20
_PART_BYTES_MIN = 2**12


class DiskFull(TaskFault, tag="disk_full", kw_only=True, frozen=True):
    """RLIMIT_FSIZE in the task: writes beyond byte `size` of a file fail with EFBIG. Proof: the agent's own try.

    It concerns every file that the task writes, its log included. TensorFlow raises OutOfRangeError or UnknownError.

    With `directory` its file system is really filled, for all tasks, until `size` is left: writes fail with ENOSPC, and
    TensorFlow raises ResourceExhaustedError. Proof: a write of Lockstep's own. The filling is a file without a name, so
    the room comes back whatever ends the run.

    Attributes:
        size: how long a file may be, or what is left of the file system.
        directory: in the file system that is filled. It has to be a small one, such as a tmpfs of its own.
        duration: how long; without it until the plan heals or the run ends.
    """

    size: str = "64KiB"
    directory: str | None = None
    duration: str | None = None

    environment: ClassVar[bool] = True
    in_task: ClassVar[bool] = True

    repeats: ClassVar[tuple[str, ...]] = ("refused", "lifted")
    cause: ClassVar[str] = "disk and memory"
    searched: ClassVar[Mapping[str, Sequence[Any]]] = {"size": ("64KiB", "1B"), "duration": LASTING}

    def check(self) -> None:
        """A directory has a name."""
        if self.directory == "":
            raise UsageError("directory is empty; name a directory in the file system that is to be filled")

    def inject(self, scene: Scene) -> Effect:
        """Tell each agent, or fill the file system."""
        size = parse_size(self.size, "size")
        if self.directory is not None:
            filling = scene.memory["filling"] = os.open(self.directory, os.O_TMPFILE | os.O_RDWR, 0o600)
            filled = _fill(filling, self.directory, size)
            return {"filled_bytes": filled, "refused": _write(self.directory, size + _ROUND_BYTES)}
        bind(scene, resource.RLIMIT_FSIZE, "disk_full", size=size)
        return {}

    def measure(self, scene: Scene) -> Effect:
        """See that each agent's write was refused."""
        return {} if self.directory is not None else refused(scene, "a write beyond the size")

    def undo(self, scene: Scene) -> Effect:
        """Lift the limit, or give the room back."""
        if self.directory is None:
            return lift(scene, resource.RLIMIT_FSIZE)
        if (filling := scene.memory.pop("filling", None)) is not None:
            os.close(filling)
        return {"free_bytes": _free(self.directory)}


def _free(directory: str) -> int:
    found = os.statvfs(directory)
    return (found.f_bfree if os.geteuid() == 0 else found.f_bavail) * found.f_frsize


def _fill(filling: int, directory: str, left: int) -> int:
    """Give a file all the room but so much, and return how much that is."""
    filled, part = 0, _FILLED_BYTES_MAX
    while (free := _free(directory) - left) > 0:
        if filled + free > _FILLED_BYTES_MAX:
            raise NoEffect(
                f"the file system of {directory} has {format_size(filled + free)} free, and no more than "
                f"{format_size(_FILLED_BYTES_MAX)} are filled; use a small one, such as a tmpfs of its own"
            )
        more = min(free, part)
        try:
            os.posix_fallocate(filling, filled, more)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise NoEffect(f"the file system of {directory} cannot be filled: {error.strerror}") from None
            part = more // 2  # somebody has written meanwhile, or the file system needs some for itself
            if part < _PART_BYTES_MIN:
                break
            continue
        filled += more
    return filled


def _write(directory: str, size: int) -> str:
    """Try to write so much; the name of the error with which it was refused."""
    probe = os.open(directory, os.O_TMPFILE | os.O_RDWR, 0o600)
    try:
        written = 0
        while written < size:
            written += os.write(probe, bytes(min(_ROUND_BYTES, size - written)))
    except OSError as error:
        if error.errno == errno.ENOSPC:
            return "ENOSPC"
        raise NoEffect(f"a write to {directory} failed with {error.strerror}, not for want of room") from None
    finally:
        os.close(probe)
    raise NoEffect(f"{format_size(size)} could still be written to {directory}")


KIND = DiskFull
