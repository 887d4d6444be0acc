"""Which functions of a file are trainings, without running it."""

from __future__ import annotations

import ast
from pathlib import Path

from simulator import UsageError

__all__ = ["trainings"]


def trainings(file: Path) -> list[str]:
    """The names of functions on the top level that can be called as `train(strategy, record)`.

    Raises:
        UsageError: the file cannot be read, or is no Python.
    """
    try:
        tree = ast.parse(file.read_bytes(), file.name)
    except (OSError, SyntaxError, ValueError) as error:
        raise UsageError(f"{file} cannot be read as Python: {error}") from error
    return [each.name for each in tree.body if isinstance(each, ast.FunctionDef) and _is_training(each.args)]


def _is_training(arguments: ast.arguments) -> bool:
    """Whether two arguments by position are enough."""
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    required = len(names) - len(arguments.defaults)
    return names[:2] == ["strategy", "record"] and required <= len(names[:2]) and None not in arguments.kw_defaults
