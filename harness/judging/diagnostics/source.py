"""Which part of a line of source made an operation, by the syntax tree of its file."""

from __future__ import annotations

import ast
import contextlib
import linecache
from collections.abc import Iterator
from pathlib import Path

from harness.judging.diagnostics.protocol import Label
from harness.subject.notebook import line_on_disk
from simulator.agent.places import cell_of

__all__ = ["label_of"]


def label_of(file: str, line: int, text: str, *, source: str = "", operation: str = "") -> Label:
    """What is said of a line, with the columns of the expression that is meant.

    Args:
        file: as Python knows it, or relative to the current directory.
        line: from 1.
        text: what is said.
        source: the line as it was, without what surrounds it; a file that has another one there now is not looked at.
        operation: the type of the operation that was made there, as TensorFlow calls it.
    """
    found = linecache.getline(str(Path(file).absolute()), line).rstrip("\n")
    if source and found.strip() != source:
        return Label(file, line, source, *_columns(source, 1, source, operation), text, exact=False)
    whole = "".join(linecache.getlines(str(Path(file).absolute())))
    if cell_of(file) is not None:  # whose text has other columns in the notebook
        columns = _columns(whole, line, found, operation)
        return Label(file, line, found, *columns, text, exact=False, on_disk=line_on_disk(file, line))
    return Label(file, line, found, *_columns(whole, line, found, operation), text)


def _columns(source: str, line: int, text: str, operation: str) -> tuple[int, int]:
    """From where to where in the line the expression goes; all of its text where no tree tells."""
    begin, end = len(text) - len(text.lstrip()), len(text)
    for node in _asked(source, line, operation):
        here = node.end_col_offset if node.end_lineno == node.lineno else None
        # The tree counts bytes.
        coded = text.encode()
        begin = len(coded[: node.col_offset].decode(errors="ignore"))
        end = len(text) if here is None else len(coded[:here].decode(errors="ignore"))
        break
    return begin, end


def _asked(source: str, line: int, operation: str) -> Iterator[ast.expr]:
    """The expressions that begin in a line, first the call that makes such an operation, outer ones before inner ones.

    A statement is as good as the value that it assigns or returns.
    """
    with contextlib.suppress(SyntaxError, ValueError):
        nodes = [node for node in ast.walk(ast.parse(source)) if getattr(node, "lineno", 0) == line]
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        yield from (call for call in calls if _makes(call, operation))
        statements = [node for node in nodes if isinstance(node, ast.stmt)]
        values = [value for node in statements if isinstance(value := getattr(node, "value", None), ast.expr)]
        yield from (value for value in values if value.lineno == line)
        yield from calls


def _makes(call: ast.Call, operation: str) -> bool:
    """Whether a function of this name makes such an operation: `reduce_mean` makes `Mean`, `matmul` makes `MatMul`."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    plain, made = name.replace("_", "").lower(), operation.lower()
    return bool(plain and made) and (plain in made or made in plain)
