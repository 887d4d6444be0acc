"""Lines that fit the terminal: prose is broken at words, rows of tables are cut; files and pipes get all of them."""

from __future__ import annotations

import os
import sys
import textwrap

import click

_COLUMNS_MIN = 40
_HANGING = 4


def show(text: str, *, err: bool = False, table: bool = False) -> None:
    """Write lines to stdout or stderr, so that they fit if that is a terminal.

    Args:
        text: the lines.
        err: to stderr.
        table: the lines are rows, whose columns stand below each other; what is too long is cut, with a `…`.
    """
    click.echo(fitted(text, columns(err=err), table=table), err=err)


def columns(*, err: bool = False) -> int | None:
    """The width of the terminal that stdout (or stderr) is; None if it is none, or does not say."""
    stream = sys.stderr if err else sys.stdout
    try:
        width = os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except (OSError, ValueError):
        return None
    return max(width, _COLUMNS_MIN) if width else None


def fitted(text: str, width: int | None, *, table: bool = False) -> str:
    """The lines with no more than `width` characters each, but for words that are longer; None for any width."""
    if width is None:
        return text
    if table:
        return "\n".join(_cut(line, width) for line in text.split("\n"))
    return "\n".join(part for line in text.split("\n") for part in _broken(line, width))


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"


def _broken(line: str, width: int) -> list[str]:
    """One line as several, of which those after the first stand further to the right."""
    if len(line) <= width:
        return [line]
    indent = line[: len(line) - len(line.lstrip(" "))]
    if len(indent) > width // 2:  # nothing of ours; there would be no room for words
        return [line]
    return textwrap.wrap(
        line.strip(),
        width,
        initial_indent=indent,
        subsequent_indent=indent + " " * _HANGING,
        break_long_words=False,
        break_on_hyphens=False,
        expand_tabs=False,
        replace_whitespace=False,
    )
