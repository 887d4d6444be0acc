"""Which part of a line of source made an operation, by the syntax tree of its file."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator

_OPERATORS: dict[str, tuple[type[ast.AST], tuple[str, ...]]] = {
    "Add": (ast.Add, ("add",)),
    "AddV2": (ast.Add, ("add",)),
    "Sub": (ast.Sub, ("subtract",)),
    "Mul": (ast.Mult, ("multiply", "scalar_mul")),
    "RealDiv": (ast.Div, ("divide", "truediv")),
    "FloorDiv": (ast.FloorDiv, ("floordiv",)),
    "FloorMod": (ast.Mod, ("floormod",)),
    "Pow": (ast.Pow, ("pow",)),
    "Neg": (ast.USub, ("negative",)),
}
"""Operations that an operator of Python makes, with the functions that make them too."""


def columns_of(
    source: str, line: int, text: str, operation: str, among: tuple[int, int] | None = None
) -> tuple[int, int]:
    """From where to where in a line the expression goes that is meant; all of its text where no tree tells.

    Args:
        source: of the file.
        line: from 1.
        text: of the line.
        operation: the type of the operation that was made there, as TensorFlow calls it.
        among: which one it is, from 0, of how many of its type that the line has made.
    """
    begin, end = len(text) - len(text.lstrip()), len(text)
    for node in _meant(source, line, operation, among):
        here = node.end_col_offset if node.end_lineno == node.lineno else None
        # The tree counts bytes.
        coded = text.encode()
        begin = len(coded[: node.col_offset].decode(errors="ignore"))
        end = len(text) if here is None else len(coded[:here].decode(errors="ignore"))
        break
    return begin, end


def _meant(source: str, line: int, operation: str, among: tuple[int, int] | None) -> Iterator[ast.expr]:
    """The expressions that begin in a line, first what makes such an operation, outer calls before inner ones.

    A statement is as good as the value that it assigns or returns.
    """
    with contextlib.suppress(SyntaxError, ValueError):
        nodes = [node for node in ast.walk(ast.parse(source)) if getattr(node, "lineno", 0) == line]
        statements = [node for node in nodes if isinstance(node, ast.stmt)]
        if operation in _OPERATORS:
            yield from _operator(statements, line, operation, among)
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        yield from (call for call in calls if operation not in _OPERATORS and _makes(call, operation))
        values = [value for node in statements if isinstance(value := getattr(node, "value", None), ast.expr)]
        yield from (value for value in values if value.lineno == line)
        yield from calls


def _operator(
    statements: list[ast.stmt], line: int, operation: str, among: tuple[int, int] | None
) -> Iterator[ast.expr]:
    """The operator, or the call, that makes it: Python comes to them in the order in which TensorFlow hears of them."""
    found = [node for statement in statements for node in _in_order(statement) if _operates(node, operation)]
    number, count = (0, 1) if among is None else among
    if not found or count % len(found) or (among is None and len(found) > 1):
        return  # the line makes others too, such as a sum inside of a function of TensorFlow's
    node = found[number % len(found)]
    meant = node.value if isinstance(node, ast.AugAssign) else node
    if isinstance(meant, ast.expr) and meant.lineno == line:
        yield meant


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    """What a statement has in it, operands before what is made of them; of a compound one only what comes first."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.stmt, ast.Lambda)):
            yield from _in_order(child)
    yield node


def _operates(node: ast.AST, operation: str) -> bool:
    kind, names = _OPERATORS[operation]
    if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.AugAssign)):
        return isinstance(node.op, kind)
    return isinstance(node, ast.Call) and _name(node) in names


def _makes(call: ast.Call, operation: str) -> bool:
    """Whether a function of this name makes such an operation: `reduce_mean` makes `Mean`, `matmul` makes `MatMul`."""
    plain, made = _name(call).replace("_", "").lower(), operation.lower()
    return bool(plain and made) and (plain in made or made in plain)


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
