"""Temporary directories that are gone afterwards, also when this process is killed."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from simulator.errors import LockstepError
from simulator.helpers.warden import remove_tree
from simulator.machines.local.disk_space import no_room
from simulator.machines.local.warden import warden

# The name of a Unix socket has at most 107 bytes, of which a scratch directory and the socket in it take up to 50.
_PARENT_LENGTH_MAX = 55


def make_scratch(purpose: str, parent: Path | None = None) -> Path:
    """A new directory, `lockstep-PURPOSE-...`, removed by `remove_scratch`, or when this process ends in whatever way.

    It lies in `parent`, and is hidden there, or else where `tempfile` would put it, unless that path is too long for
    the Unix sockets within, or is not UTF-8, which messages and environments have to be.

    Raises:
        LockstepError: it cannot be made.
    """
    try:
        prefix = f"lockstep-{purpose}-" if parent is None else f".lockstep-{purpose}-"
        within = _temporary() if parent is None else parent
        while True:
            # Nobody guesses or meets a name of 48 random bits, so that the warden may hear of it before it exists:
            # this process may be killed at any moment.
            directory = within / f"{prefix}{secrets.token_urlsafe(6)}"
            warden.watch_directory(directory)
            try:
                directory.mkdir(mode=0o700)
            except FileExistsError:
                warden.forget_directory(directory)
                continue
            except OSError:
                warden.forget_directory(directory)
                raise
            return directory
    except OSError as error:
        advice = no_room(error) or "; set TMPDIR to a directory that can be written"
        raise LockstepError(f"no temporary directory can be made: {error}{advice}") from error


def remove_scratch(directory: Path) -> None:
    """Remove a directory made by `make_scratch`; says so if that cannot be done, once for each."""
    if why := remove_tree(directory):
        sys.stderr.write(f"lockstep: the temporary directory {directory} cannot be removed: {why}\n")
        return  # the warden tries once more when this process ends
    warden.forget_directory(directory)


def _temporary() -> Path:
    parent = tempfile.gettempdir()
    fits = len(os.fsencode(parent)) <= _PARENT_LENGTH_MAX and _is_text(parent)
    return Path(parent if fits else "/tmp")  # noqa: S108 - a directory of our own is made there


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


@contextlib.contextmanager
def scratch(purpose: str, parent: Path | None = None) -> Iterator[Path]:
    """A temporary directory for the duration of the context; as of `make_scratch`."""
    directory = make_scratch(purpose, parent)
    try:
        yield directory
    finally:
        remove_scratch(directory)
