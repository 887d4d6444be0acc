"""Which names a statement of a program reads."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Statement:
    """A statement, of one that holds others only its head.

    Attributes:
        file: which has it.
        first: its first line.
        last: its last line.
        names: what it reads.
    """

    file: str
    first: int
    last: int
    names: frozenset[str] = frozenset()


def statement_at(file: str, line: int) -> Statement:
    """The innermost statement at a line; where the file cannot be read, the line with no names."""
    around = [node for node in _statements(file) if node.lineno <= line <= (node.end_lineno or node.lineno)]
    if not around:
        return Statement(file, line, line)
    node = max(around, key=lambda each: each.lineno)
    heads = [head for name in ("iter", "test", "items", "subject") for head in _listed(getattr(node, name, None))]
    if not hasattr(node, "body"):
        return Statement(file, node.lineno, node.end_lineno or node.lineno, _names([node]))
    return Statement(file, line, line, _names(heads))


def _listed(value: object) -> list[ast.AST]:
    several = value if isinstance(value, list) else [value]
    return [each for each in several if isinstance(each, ast.AST)]


def _names(nodes: list[ast.AST]) -> frozenset[str]:
    added = [node.target for node in nodes if isinstance(node, ast.AugAssign)]
    every = (each for node in nodes for each in ast.walk(node))
    read = (each for each in every if isinstance(each, ast.Name) and (isinstance(each.ctx, ast.Load) or each in added))
    return frozenset(each.id for each in read)


@cache
def _statements(file: str) -> tuple[ast.stmt, ...]:
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ()
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.stmt))
