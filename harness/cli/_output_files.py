"""Writes pages and traces that a command is asked for, and over nothing but what a command has written itself."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from simulator import UsageError

# What stands near the beginning of each.
_PAGE, _TRACE = b"<title>Lockstep ", b'"traceEvents":'
_BEGINNING_BYTES = 512


def again() -> str:
    """The command under way, as a line that can be pasted anywhere."""
    context = click.get_current_context().find_root()
    return f"cd {shlex.quote(str(Path.cwd()))} && {shlex.join(['lockstep', *context.meta.get('arguments', ())])}"


def check_written(page: Path | None, trace: Path | None) -> None:
    """Fail before anything is read if one of these files is something else than what shall be written there.

    Raises:
        UsageError: it is, or it cannot be written.
    """
    for path, mark, option in ((page, _PAGE, "--html"), (trace, _TRACE, "--trace")):
        if path is None:
            continue
        if not path.parent.is_dir():
            raise UsageError(f"{option} {path}: there is no directory {path.parent}")
        try:
            # What is no regular file, such as /dev/stdout, is not replaced.
            beginning = _beginning(path) if path.is_file() else b""
        except OSError as error:
            raise UsageError(f"{option} {path} cannot be read: {error.strerror}") from error
        if beginning and mark not in beginning:
            raise UsageError(
                f"{option} {path} exists, and Lockstep has not written it; name another file, or remove it"
            )
        check_writable(path, option)


def check_writable(path: Path, option: str) -> None:
    """Fail if a file cannot be written, or made in its directory; nothing is changed there.

    Raises:
        UsageError: it cannot; the message says why.
    """
    try:
        if not path.exists():
            with tempfile.TemporaryFile(dir=path.parent):
                return
        if path.is_file():  # a pipe or a terminal is not opened twice
            path.open("ab").close()
    except OSError as error:
        raise UsageError(f"{option} {path} cannot be written: {error.strerror}; name another file") from error


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_BEGINNING_BYTES)


def write_page(path: Path, text: str) -> None:
    """Write what `--html` names."""
    _write(path, text.encode(errors="backslashreplace"))


def write_verdicts(path: Path, verdicts: Sequence[tuple[dict[str, Any], Path]]) -> None:
    """Write what `--html` names: verdicts in their JSON form, each with the directory of its run."""
    from harness.damaged_files import reading
    from harness.report.pages import Verified, verified_page
    from harness.report.timeline import read_timelines

    runs = []
    for verdict, directory in verdicts:
        with reading(directory):
            runs.append(Verified.of(verdict, read_timelines(directory), directory))
    write_page(path, verified_page(runs, again()))


def write_trace(path: Path, data: bytes) -> None:
    """Write what `--trace` names."""
    _write(path, data)


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}; free space, or name another file") from error
    click.echo(f"written: {path}", err=True)
