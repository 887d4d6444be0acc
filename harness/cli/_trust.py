"""Whether a saved job may be run again without a question: its command runs as whoever replays it."""

from __future__ import annotations

import grp
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


def confirm_command(directory: Path, job: Job, *, sure: bool) -> None:
    """Show all that would be run and ask, where somebody else may have written it.

    Args:
        directory: of the saved job.
        job: what was found there, with what was asked for instead.
        sure: the answer was given before.

    Raises:
        UsageError: nobody can be asked, or the answer was no.
    """
    doubts = list(_doubts(directory))
    if not doubts:
        return
    click.echo(f"{doubts[0]}. It says to run\n  {chr(10).join(_shown(job))}", err=True)
    if sure:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"nothing was run, since {doubts[0]}; add --yes if the command above is what you want to run")
    if not click.confirm("Run it, as you?", err=True):
        raise UsageError("nothing was run")


def _shown(job: Job) -> Iterator[str]:
    """The command, where it runs, and what else is started for that."""
    yield _visible(shlex.join(job.command))
    yield f"  in {_visible(job.cwd)}"
    for what, text in (
        ("on machines", job.machines),
        ("by the Python there", job.machines_python),
        ("with cables pulled by", job.machines_cable),
    ):
        if text is not None:
            yield f"  {what} {_visible(text)}"


def _doubts(directory: Path) -> Iterator[str]:
    """Why others may have written it."""
    for path in (directory, *(directory / name for name in FILES)):
        found = path.stat()
        if found.st_uid != os.geteuid():
            yield f"{path} belongs to {_name(found.st_uid)}, not to you"
        elif found.st_mode & stat.S_IWOTH:
            yield f"{path} can be written to by everybody"
        elif found.st_mode & stat.S_IWGRP and (others := _others(found.st_gid)):
            yield f"{path} can be written to by {others}"


def _others(group: int) -> str:
    """Who else is in a group, which many users have for themselves alone; empty if nobody is."""
    here = os.geteuid()
    users = {user.pw_name for user in pwd.getpwall() if user.pw_gid == group and user.pw_uid != here}
    try:
        found = grp.getgrgid(group)
    except KeyError:
        return f"group {group}"
    users |= {name for name in found.gr_mem if name != _name(here)}
    return f"group {found.gr_name}" if users else ""


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def _visible(text: str) -> str:
    """The text without what would move a terminal's cursor and hide a part of it."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
