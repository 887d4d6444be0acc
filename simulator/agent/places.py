"""How texts name a line of a program: that of a file, or that of a cell of a notebook, which is no file of its own."""

from __future__ import annotations

import linecache
import re

_CELL = re.compile(r"(?P<notebook>.+), cell (?P<number>\d+)")
_PLACE = re.compile(r"(?P<file>.+?)(?::|, line )(?P<line>\d+)")


def cell_file(notebook: str, number: int) -> str:
    """What Python knows a cell by, in place of a file: `train.ipynb, cell 3`."""
    return f"{notebook}, cell {number}"


def cell_of(file: str) -> tuple[str, int] | None:
    """The notebook and the number of such a cell; None of a file."""
    found = _CELL.fullmatch(file)
    return None if found is None else (found["notebook"], int(found["number"]))


def place(file: str, line: int) -> str:
    """`train.py:19`, or `train.ipynb, cell 3, line 19`."""
    return f"{file}:{line}" if cell_of(file) is None else f"{file}, line {line}"


def file_and_line(text: str) -> tuple[str, int] | None:
    """The two of a `place`; None where the text is none."""
    found = _PLACE.fullmatch(text)
    return None if found is None else (found["file"], int(found["line"]))


def source_at(file: str, line: int) -> str:
    """The text of a line as its file has it now, also where another one of that name was read before."""
    linecache.checkcache(file)
    return linecache.getline(file, line).strip()
