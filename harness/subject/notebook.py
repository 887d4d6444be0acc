"""Jupyter notebooks as programs: their code cells in order, without those lines of IPython's that change no number."""

from __future__ import annotations

import json
import linecache
import re
import warnings
from collections.abc import Iterator, Sequence
from json import decoder, scanner
from pathlib import Path
from typing import Any

import msgspec

from simulator import UsageError
from simulator.agent.places import cell_file, cell_of, place

# They look, install what is there already or is missed at its import, or show how long something took.
_HARMLESS = re.compile(
    r"%(matplotlib|config|load_ext|reload_ext|autoreload|tensorflow_version|tensorboard|pip|conda|who|whos|pwd)\b.*"
    r"|!\s*(pip3?|conda|uv pip|python3? -m pip)\b[^|&;]*"
    r"|!\s*(cat|date|df|echo|free|head|ls|lscpu|nvidia-smi|pwd|which)\b[^|&;<>]*"
    r"|\?{1,2}[\w.]+|[\w.]+\?{1,2}"
)
_HARMLESS_OF_CELLS = re.compile(r"%%(time|capture|lockstep\b.*)\s*")
_TIMED = re.compile(r"%time\s+(?P<statement>\S.*)")
_OF_IPYTHON = re.compile(r"[%!?].*|[\w., ]+=\s*[%!].*|.*\?")


class NotebookCell(msgspec.Struct, frozen=True):
    """A cell of code.

    Attributes:
        number: that Jupyter shows when all cells were run once, in order: cells of code that are not empty, from 1.
        source: as Python, each line where it was.
    """

    number: int
    source: str


def read_cells(path: Path) -> tuple[NotebookCell, ...]:
    """The cells of a notebook.

    Raises:
        UsageError: it cannot be read, or has a line that no Python script has; the message names the cell.
    """
    sources = [each for each in _sources(path) if each.strip()]
    if not sources:
        raise UsageError(f"{path.name} has no cell of code")
    return tuple(
        NotebookCell(number, _python(source, cell_file(path.name, number)))
        for number, source in enumerate(sources, start=1)
    )


def _sources(path: Path) -> list[str]:
    try:
        import nbformat
    except ImportError as error:
        raise UsageError(
            f"{path.name} is a notebook, which nbformat reads; install it: pip install 'tf-lockstep[notebook]'"
        ) from error
    try:
        text = path.read_text(encoding="utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of cells without an id, as older notebooks have them
            notebook = nbformat.reads(text, as_version=4)
            nbformat.validate(notebook)
    except OSError as error:
        raise UsageError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    except Exception as error:  # nbformat's own, and what its conversions of older forms raise
        why = str(error).partition("\n")[0]
        raise UsageError(f"{path.name} is no notebook that nbformat can read: {why}") from error
    language = notebook.metadata.get("language_info", notebook.metadata.get("kernelspec", {}))
    if (name := str(language.get("name", "python")).lower()) and "python" not in name:
        raise UsageError(f"{path.name} is a notebook in {name}, and only those in Python can be verified")
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def is_harmless(line: str) -> bool:
    """Whether what IPython does at such a line can be left out of a script."""
    return _HARMLESS.fullmatch(line.strip()) is not None


def _python(source: str, file: str) -> str:
    """A cell without lines of IPython's.

    Which these are is for Python to say: what it cannot read. So `% 3` in a bracket and `!` in a text stay.
    """
    lines = source.split("\n")
    _leave_out_first(lines, file)
    while True:
        text = "\n".join(lines) + "\n"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # they come when it runs
                compile(text, file, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            # ValueError: null bytes, before Python 3.12. The other two: nested too deeply.
            _leave_out(lines, file, getattr(error, "lineno", None), getattr(error, "msg", str(error)))
        else:
            return text


def _leave_out_first(lines: list[str], file: str) -> None:
    """Leave out the magics of a whole cell, at its beginning."""
    for number, line in enumerate(lines):
        if line.startswith("%%") and _HARMLESS_OF_CELLS.fullmatch(line) is None:
            raise UsageError(
                f"{file} begins with {line.split()[0]}, so that IPython does something else with it than to run it "
                "once as Python; write it in Python, or make it a cell of text"
            )
        if line.strip() and not line.startswith("%%"):
            return
        lines[number] = ""


def _leave_out(lines: list[str], file: str, number: int | None, why: str) -> None:
    """Make the line that Python cannot read one that does nothing, if IPython's doing there is harmless.

    Raises:
        UsageError: it is not, or no line of IPython's.
    """
    if number is None or not 1 <= number <= len(lines):
        raise UsageError(f"{file} is not Python: {why}")
    line = lines[number - 1]
    indent, text = line[: len(line) - len(line.lstrip())], line.strip()
    last = number
    while lines[last - 1].endswith("\\") and last < len(lines):
        last += 1
    whole = " ".join(each.strip().removesuffix("\\") for each in lines[number - 1 : last])
    if (timed := _TIMED.fullmatch(text)) is not None:
        lines[number - 1] = f"{indent}{timed['statement']}"
    elif is_harmless(whole):
        lines[number - 1 : last] = [f"{indent}pass", *[""] * (last - number)]
    elif _OF_IPYTHON.fullmatch(text):
        raise UsageError(
            f"{place(file, number)}: {text!r} is for IPython and no Python, and it may change what follows; write it "
            "in Python, or do it before"
        )
    else:
        raise UsageError(f"{place(file, number)} is not Python: {why}: {text!r}")


def show_to_python(path: str, cells: Sequence[NotebookCell]) -> Iterator[tuple[str, NotebookCell]]:
    """Each cell with what Python is to know it by; from then on its lines are found where those of a file are.

    That is where tracebacks, AutoGraph and verdicts look for them.
    """
    for cell in cells:
        file = cell_file(path, cell.number)
        show_source(file, cell.source)
        yield file, cell


def show_source(file: str, source: str) -> None:
    """Have the lines of what Python knows by this name found there."""
    # Without a time of modification the cache never asks for the file.
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)


class _At(str):
    """A text of a JSON file, and where it begins there."""

    __slots__ = ("offset",)
    offset: int


class _Decoder(json.JSONDecoder):
    """Remembers where texts begin."""

    def __init__(self) -> None:
        super().__init__()
        self.parse_string = _placed
        self.scan_once = scanner.py_make_scanner(self)  # type: ignore[attr-defined]  # that in C does not ask us


def _placed(text: str, begin: int, strict: bool = True) -> tuple[str, int]:
    value, end = decoder.scanstring(text, begin, strict)  # type: ignore[attr-defined]  # as json does
    found = _At(value)
    found.offset = begin
    return found, end


def line_on_disk(file: str, line: int) -> tuple[str, int]:
    """The notebook of a cell, and the line of its text that has the cell's, for tools that know files; or as it is.

    Notebooks have a line for each one of a cell. Where one has not it is that at which the cell begins, or the first.
    """
    if (found := cell_of(file)) is None:
        return file, line
    notebook, number = found
    try:
        text = Path(notebook).read_text(encoding="utf-8")
        whole: Any = _Decoder().decode(text)
        sources = [each["source"] for each in whole["cells"] if each["cell_type"] == "code"]
        source = [each for each in sources if "".join(each).strip()][number - 1]
        begin = source[line - 1] if isinstance(source, list) else source
        return notebook, text.count("\n", 0, begin.offset) + 1
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return notebook, 1
