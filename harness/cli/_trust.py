"""Whether a saved job may be run again without a question: its command runs as whoever replays it."""

from __future__ import annotations

import os
import pwd
import shlex
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from harness.cli._saved_job import FILES, Job
from simulator import UsageError

__all__ = ["confirm_command"]


def confirm_command(directory: Path, job: Job, *, sure: bool) -> None:
    """Show the command and ask, where somebody else may have written it.

    Args:
        directory: of the saved job.
        job: what was found there.
        sure: the answer was given before.

    Raises:
        UsageError: nobody can be asked, or the answer was no.
    """
    doubts = list(_doubts(directory))
    if not doubts:
        return
    shown = f"{_visible(shlex.join(job.command))}\n  in {_visible(job.cwd)}"
    click.echo(f"{doubts[0]}. It says to run\n  {shown}", err=True)
    if sure:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"nothing was run, since {doubts[0]}; add --yes if the command above is what you want to run")
    if not click.confirm("Run it, as you?", err=True):
        raise UsageError("nothing was run")


def _doubts(directory: Path) -> Iterator[str]:
    """Why others may have written it."""
    for path in (directory, *(directory / name for name in FILES)):
        found = path.stat()
        if found.st_uid != os.geteuid():
            yield f"{path} belongs to {_name(found.st_uid)}, not to you"
        elif found.st_mode & stat.S_IWOTH:
            yield f"{path} can be written to by everybody"


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def _visible(text: str) -> str:
    """The text without what would move a terminal's cursor and hide a part of it."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
