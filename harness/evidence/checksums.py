"""Checksums of saved files, as `sha256sum` has them: what is not as it was saved is never judged."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from harness.run_directory import SUMS

_PART_BYTES = 1 << 20


def note_sums(directory: Path, files: Iterable[Path]) -> None:
    """Note what these files of a directory hold, in place of what was noted before.

    `sha256sum --check SHA256SUMS` says there what `not_as_saved` says here.
    """
    lines = (f"{_sum(path)}  {path.relative_to(directory).as_posix()}\n" for path in sorted(files))
    (directory / SUMS).write_text("".join(lines))


def not_as_saved(directory: Path, files: Iterable[Path] | None = None) -> str | None:
    """What is wrong with a directory, in a sentence; None if each file that was noted holds what it did.

    Args:
        directory: of `note_sums`.
        files: all that will be read; one that was not noted is wrong too.
    """
    sums = directory / SUMS
    try:
        lines = sums.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = "is not there" if isinstance(error, FileNotFoundError) else "cannot be read"
        return f"{sums} {why}, so that nobody can say whether the rest is what was saved; make the run again"
    noted = {directory / name: found for found, _, name in (line.partition("  ") for line in lines)}
    for path in sorted({*noted, *(files or ())}):
        if path not in noted:
            return f"{path} was not there when the run was saved"
        try:
            same = _sum(path) == noted[path]
        except OSError as error:
            return f"{path} cannot be read: {error.strerror}"
        if not same:
            return f"{path} is damaged: it does not hold what was saved (by {SUMS} beside it)"
    return None


def _sum(path: Path) -> str:
    stat = path.stat()
    return _sum_of(path, stat.st_ino, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=1024)
def _sum_of(path: Path, *_: int) -> str:
    """That of a file in this state, which is read once."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(_PART_BYTES):
            found.update(part)
    return found.hexdigest()
