"""Directories that users name for results: what is Lockstep's in them, and may be removed, stands in a marker file.

A directory with the marker holds what the marker lists, and maybe files of the user's, which are left alone. One
without it is used only if it is empty, or holds nothing but what an earlier version of Lockstep, which wrote no marker,
has left.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from simulator.errors import LockstepError, UsageError
from simulator.helpers.warden import remove_tree

MARKER = ".lockstep.json"
_JOURNAL = "journal.jsonl"
# What `lockstep run` leaves beside the numbered folders.
_BESIDE_RUNS = ("run.json", "plan.toml")
_SHOWN_MAX = 3


class NotKept(LockstepError):
    """Raised when what a run has left cannot be put where the user wants it, for example because the disk is full."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(
            f"what the run has left cannot be kept in {path}: {_reason(error)}; free space, or name another"
        )


class _Marker(msgspec.Struct):
    """What is in the marker file."""

    written_by: str
    entries: list[str]


def holds_runs(directory: Path) -> bool:
    """Whether a directory without a marker holds nothing but runs, as of `Cluster(out=)` or `lockstep run`."""
    entries = list(directory.iterdir())
    runs = [path for path in entries if path.name.isdecimal() and path.is_dir() and not path.is_symlink()]
    return all(path in runs or path.name in _BESIDE_RUNS for path in entries) and any(
        (path / _JOURNAL).is_file() for path in runs
    )


class OutDirectory:
    """A directory that a user has named.

    Args:
        path: where; made if need be.
        is_ours: whether a directory that has no marker is one of an earlier version.
        option: what the user calls it, in error messages.
    """

    def __init__(self, path: str | Path, is_ours: Callable[[Path], bool] = holds_runs, *, option: str = "out") -> None:
        # A program may change its working directory, and must not take its state along.
        self.path = Path(path).absolute()
        self._is_ours = is_ours
        self._is_new = False
        self._called = f"{option}{' ' if option.startswith('-') else '='}{path}"

    def check(self) -> None:
        """Fail, and change nothing, if the directory is not for Lockstep.

        Raises:
            UsageError: it holds something else, is no directory, or cannot be read or written to.
        """
        try:
            self._check()
        except OSError as error:
            raise self._refused(error) from error

    def _check(self) -> None:
        if not self.path.is_dir():
            if self.path.exists() or self.path.is_symlink():
                raise UsageError(f"{self._called} is no directory; name one that is empty or does not exist")
            return
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise UsageError(f"{self._called} cannot be written to; name another directory")
        found = sorted(path.name for path in self.path.iterdir())
        if found and self._entries() is None and not self._is_ours(self.path):
            more = f" and {len(found) - _SHOWN_MAX} more" if len(found) > _SHOWN_MAX else ""
            raise UsageError(
                f"{self._called} holds what Lockstep has not written ({', '.join(found[:_SHOWN_MAX])}{more}), and what "
                "is in the way there would be lost; name a directory that is empty or does not exist"
            )

    def make(self) -> None:
        """Make it if need be, and mark it.

        Raises:
            UsageError: as `check`, or it cannot be made.
        """
        self.check()
        self._is_new = self._is_new or not self.path.exists()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if self._entries() is None:
                with self.held():
                    self._mark(path.name for path in self.path.iterdir())
        except OSError as error:
            raise self._refused(error) from error

    def unmake(self) -> None:
        """As it was before `make`, if nothing has been put into it since, and nobody holds it: nothing was run."""
        with contextlib.suppress(OSError, UsageError), self.held():
            if {path.name for path in self.path.iterdir()} <= {MARKER}:
                (self.path / MARKER).unlink(missing_ok=True)
                if self._is_new:
                    self.path.rmdir()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes out; nothing is left in the directory for it, since it is the directory that is locked.

        Raises:
            UsageError: another one is using it.
        """
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise UsageError(
                    f"{self._called} is in use by another run of Lockstep; wait for its end, or name another directory"
                ) from error
            yield
        finally:
            os.close(descriptor)

    def add(self, *names: str) -> None:
        """Say that these entries are Lockstep's, before they are made.

        Raises:
            UsageError: one is there already and is not.
        """
        known = self._entries() or ()
        for name in names:
            path = self.path / name
            if path.is_symlink() or (path.exists() and name not in known):
                raise UsageError(f"{path} is in the way, and Lockstep has not written it; move it, or name another out")
        if set(names) - set(known):
            try:
                self._mark((*known, *names))
            except OSError as error:
                raise self._refused(error) from error

    def renew(self, *names: str) -> None:
        """Remove what an earlier run has left under these names, which from now on are for the next one.

        Raises:
            UsageError: as `add`, or it cannot be removed.
        """
        self.add(*names)
        for path in (self.path / name for name in names):
            try:
                if path.is_dir():
                    # Tasks of a run that was killed just now may still be writing.
                    remove_tree(path)
                    if path.exists():
                        shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
            except OSError as error:
                raise UsageError(f"{path}, of an earlier run, cannot be removed: {_reason(error)}") from error

    def _entries(self) -> tuple[str, ...] | None:
        """What is Lockstep's in it; None if it has no marker."""
        file = self.path / MARKER
        if not file.is_file():
            return None
        try:
            return tuple(msgspec.json.decode(file.read_bytes(), type=_Marker).entries)
        except msgspec.MsgspecError:
            # Cut short, as by a full disk: nothing is known to be ours.
            return ()

    def _mark(self, entries: Iterable[str]) -> None:
        names = sorted({*entries} - {MARKER})
        text = msgspec.json.format(
            msgspec.json.encode(_Marker("Lockstep, which removes these for the next run", names))
        )
        new = self.path / f"{MARKER}.new"
        new.write_bytes(text + b"\n")
        new.replace(self.path / MARKER)

    def _refused(self, error: OSError) -> UsageError:
        what = "be written to" if self.path.is_dir() else "be made"
        return UsageError(f"{self._called} cannot {what}: {_reason(error)}; name another directory")


def _reason(error: OSError) -> str:
    """Why, in words; of many files that could not be copied, of the first."""
    if isinstance(error, shutil.Error) and error.args and error.args[0]:
        # Text by then: `[Errno 28] No space left on device: 'FROM' -> 'TO'`.
        return re.sub(r"^\[Errno [0-9]+\] |: '.*", "", str(error.args[0][0][-1]))
    return error.strerror or os.strerror(error.errno or errno.EIO)
