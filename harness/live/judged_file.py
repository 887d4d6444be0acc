"""The file of a deposit in which each step that was judged is a line, and one judge at a time writes."""

from __future__ import annotations

import contextlib
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import msgspec
from filelock import FileLock, SoftFileLock, Timeout

from harness.evidence.deposit import JUDGED
from harness.live.findings import StepJudged
from simulator import UsageError

_LOCK = "judge.lock"
_PROBE_BYTES = 4096


class JudgedFile:
    """That of a deposit."""

    def __init__(self, deposit: Path) -> None:
        self._path = deposit / JUDGED

    @property
    def steps(self) -> list[StepJudged]:
        """All that have been judged; of a step that was tried again what came of it last."""
        lines = self._path.read_bytes().splitlines() if self._path.exists() else []
        found = {}
        for line in lines:
            with contextlib.suppress(msgspec.DecodeError):  # a judge was killed while it wrote it
                each = msgspec.json.decode(line, type=StepJudged)
                found[each.key] = each
        return list(found.values())

    def add(self, step: StepJudged) -> None:
        """Add a step.

        Raises:
            UsageError: the file cannot be written.
        """
        try:
            with self._path.open("ab+") as file:
                # A judge that was killed may have left half a line.
                file.seek(max(0, file.tell() - 1))
                begun = file.read(1) not in (b"", b"\n")
                file.write(b"\n" * begun + msgspec.json.encode(step) + b"\n")
        except OSError as error:
            raise self._unwritable(error) from error

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Within this context no other judge begins here; the system ends the lock of a process that it ends.

        Raises:
            UsageError: another one is at work here, or nothing could be added.
        """
        self._check()
        place = self._path.parent
        lock = FileLock(place / _LOCK)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that the file itself is the lock where the file system has no others
                lock.acquire(blocking=False)
        except Timeout as held:
            if not isinstance(lock, SoftFileLock):
                raise UsageError(
                    f"another `lockstep judge` is at work in {place}; wait for its end, or end it"
                ) from held
        except (OSError, NotImplementedError):  # there are none at all
            pass
        if isinstance(lock, SoftFileLock):  # the file would stay if this process were killed
            lock.release()
        try:
            yield
        finally:
            lock.release()

    def _check(self) -> None:
        """Fail if nothing could be added.

        Raises:
            UsageError: so it is.
        """
        try:
            if self._path.exists():
                self._path.open("ab+").close()
            with tempfile.TemporaryFile(dir=self._path.parent) as probe:
                probe.write(bytes(_PROBE_BYTES))
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> UsageError:
        return UsageError(
            f"{self._path} cannot be written: {error.strerror}; free space there, copy the evidence to where it can be "
            "written, or mount it so"
        )
