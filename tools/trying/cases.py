"""Which programs are tried: what the catalogue says of each, and the lines of its file that are marked as guilty."""

from __future__ import annotations

import ast
import fnmatch
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec

FOLDER = Path(__file__).resolve().parent

_MARK = re.compile(r"#\s*guilty(?::\s*(?P<names>[\w, ]+))?\s*$")


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A program in the catalogue; one without a `mistake` is right."""

    strategies: tuple[str, ...] = ("mirrored-2",)
    mistake: str | None = None
    rules: tuple[str, ...] = ()
    condition: str | None = None


class Trial(msgspec.Struct, frozen=True):
    """One program under one strategy.

    Attributes:
        style: the file it is in, without its suffix.
        function: what is verified.
        strategy: under which.
        mistake: what is wrong with it in a few words, None if it is right.
        rules: the rules of `harness.judging.explain` each of which would name the mistake; none where none knows it.
        condition: the code of what a consistent verdict is given, where that is the mistake; None for none.
    """

    style: str
    function: str
    strategy: str
    mistake: str | None = None
    rules: tuple[str, ...] = ()
    condition: str | None = None

    @property
    def name(self) -> str:
        """What reports call it, and what `--only` is held against."""
        return f"{self.style}:{self.function.removeprefix('train_')}@{self.strategy}"

    @property
    def file(self) -> Path:
        """Where the program is."""
        return FOLDER / "programs" / f"{self.style}.py"

    @property
    def program(self) -> str:
        """As `verify` takes it."""
        return f"{self.file}:{self.function}"

    @property
    def guilty(self) -> tuple[int, ...]:
        """The lines that may be blamed; none in a right program."""
        return guilty_lines(self.file.read_text(), self.function)


def trials(only: str = "*") -> tuple[Trial, ...]:
    """Everything in the catalogue whose name matches a pattern, in its order.

    Raises:
        msgspec.ValidationError: the catalogue has something else in it; the message says where.
    """
    found = msgspec.toml.decode((FOLDER / "catalogue.toml").read_bytes(), type=dict[str, dict[str, _Entry]])
    every = (
        Trial(style, function, strategy, entry.mistake, entry.rules, entry.condition)
        for style, entries in found.items()
        for function, entry in entries.items()
        for strategy in entry.strategies
    )
    return tuple(trial for trial in every if fnmatch.fnmatch(trial.name, only))


def guilty_lines(source: str, function: str) -> tuple[int, ...]:
    """The lines of the statements with `# guilty` inside a function, or with `# guilty: FUNCTION, ...` anywhere."""
    statements = _statements(source)
    (own,) = (node for node in statements if isinstance(node, ast.FunctionDef) and node.name == function)
    found: set[int] = set()
    for number, line in enumerate(source.splitlines(), start=1):
        if mark := _MARK.search(line):
            inside = own.lineno <= number <= (own.end_lineno or own.lineno)
            names = mark["names"]
            if inside if names is None else function in re.split(r"[,\s]+", names):
                found.update(_statement(statements, number))
    return tuple(sorted(found))


def _statement(statements: Sequence[ast.stmt], line: int) -> range:
    """The lines of the innermost statement at a line; of one that holds others, such as `if`, this line only."""
    around = [node for node in statements if node.lineno <= line <= (node.end_lineno or node.lineno)]
    innermost = max(around, key=lambda node: node.lineno)
    if hasattr(innermost, "body"):
        return range(line, line + 1)
    return range(innermost.lineno, (innermost.end_lineno or innermost.lineno) + 1)


@cache  # a file has many programs
def _statements(source: str) -> tuple[ast.stmt, ...]:
    return tuple(node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt))
