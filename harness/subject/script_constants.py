"""Numbers that a script has names for: one that is divided by may be how many replicas it is written for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from harness.subject.script import Script
from simulator.agent.places import place


def divisions_by(script: Script, number: int) -> list[str]:
    """The lines of its functions that divide by a name which the script gives to this number: `train.py:12`.

    What is divided by a number without a name may well be something else, such as half of a square.
    """
    if script.cells:
        return []
    tree = ast.parse(Path(script.path).read_bytes())
    names = {name for statement in tree.body for name in _named(statement, number)}
    functions = (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef))
    found = {line for function in functions for each in ast.walk(function) for line in _divides(each, names)}
    return [place(Path(script.path).name, line) for line in sorted(found)]


def _named(statement: ast.stmt, number: int) -> Iterator[str]:
    if not isinstance(statement, ast.Assign) or not isinstance(value := statement.value, ast.Constant):
        return
    if type(value.value) is int and value.value == number:
        yield from (target.id for target in statement.targets if isinstance(target, ast.Name))


def _divides(node: ast.AST, names: set[str]) -> Iterator[int]:
    by = None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        by = node.right
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div):
        by = node.value
    if isinstance(by, ast.Name) and by.id in names:
        yield by.lineno
