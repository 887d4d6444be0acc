"""What a cure is: it knows which change of a source mends a mistake, and nothing of whether it does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

from harness.judging.culprit.kinds import KINDS, REPORT
from harness.judging.diagnostics import Label

NUMBERS = (
    "loss_matches_reference",
    "gradients_match_reference",
    "variables_match_reference",
    "metrics_match_reference",
    "replicas_agree",
    *(code for code in KINDS if code != REPORT.code),
)
"""Codes of diagnostics that say which numbers are wrong, or what a line makes of them, and no rule says how."""

REPLICAS = "num_replicas_in_sync"

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


_Node = TypeVar("_Node", bound=ast.expr | ast.stmt)


@dataclass(frozen=True)
class CureSource:
    """A file of a program, with what a diagnostic says of it.

    Attributes:
        text: of the file.
        label: the line that is wrong; None where none is named, and any may be.
        others: lines of the same file that take part.
    """

    text: str
    label: Label | None = None
    others: tuple[Label, ...] = ()

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text)

    @cached_property
    def tensorflow(self) -> str:
        """What the file calls TensorFlow."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for name in node.names:
                    if name.name == "tensorflow":
                        return name.asname or name.name
        return "tf"

    @property
    def lines(self) -> tuple[int, ...]:
        """Of all labels, that which is wrong first; all of the file where none is named."""
        named = [each.line for each in (self.label, *self.others) if each is not None]
        return tuple(dict.fromkeys(named or range(1, len(self._lines) + 1)))

    @property
    def line(self) -> int | None:
        """That which is wrong; None where any may be."""
        return None if self.label is None else self.label.line

    @property
    def context(self) -> str:
        """How the file gets at the context of its replica."""
        return f"{self.tensorflow}.distribute.get_replica_context()"

    @property
    def replicas(self) -> str:
        """How the file gets at the number of replicas."""
        return f"{self.tensorflow}.distribute.get_strategy().{REPLICAS}"

    def shared(self, name: str) -> str:
        """A statement that leaves each replica its share of what all of them have."""
        return f"{name} = {self.tensorflow}.nest.map_structure(lambda each: each / {self.replicas}, {name})"

    @cached_property
    def gradients(self) -> frozenset[str]:
        """Names of what a tape has given, and of what was made of it; and names that say so themselves."""
        found = {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name) and "grad" in node.id.lower()}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign):
                makes = any(isinstance(each, ast.Call) and called(each) == "gradient" for each in ast.walk(node.value))
                if makes or found & {each.id for each in ast.walk(node.value) if isinstance(each, ast.Name)}:
                    found.update(targets(node))
        return frozenset(found)

    def nodes(self, kind: type[_Node]) -> Iterator[_Node]:
        """Expressions, or statements, of a kind with a part in a line of a label, those of the wrong line first."""
        every = [node for node in ast.walk(self.tree) if isinstance(node, kind)]
        order = {line: place for place, line in enumerate(self.lines)}
        there = [(min((order[line] for line in order if self.covers(node, line)), default=-1), node) for node in every]
        yield from (node for place, node in sorted(there, key=lambda each: each[0]) if place >= 0)

    def calls(self, *names: str, line: int | None = None) -> Iterator[ast.Call]:
        """Calls of functions that are called so, in all of the file or over a line, the first ones first."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and called(node) in names and (line is None or self.covers(node, line)):
                yield node

    def covers(self, node: ast.expr | ast.stmt, line: int) -> bool:
        """Whether an expression, or a statement, has a part in a line."""
        return node.lineno <= line <= (node.end_lineno or node.lineno)

    def of(self, node: ast.expr) -> str:
        """The text of an expression."""
        begin, end = self._span(node)
        return self.text[begin:end]

    def replaced(self, node: ast.expr, text: str) -> str:
        """The file with another text for an expression."""
        return self.replaced_all({node: text})

    def replaced_all(self, texts: Mapping[ast.expr, str]) -> str:
        """The file with other texts for expressions of which none is in another."""
        found = self.text
        for (begin, end), text in sorted(((self._span(node), text) for node, text in texts.items()), reverse=True):
            found = found[:begin] + text + found[end:]
        return found

    def around(self, statement: ast.stmt, before: str, after: str | None = None) -> str:
        """The file with a line before a statement, and maybe one after it."""
        first, last = statement.lineno - 1, statement.end_lineno or statement.lineno
        lines, line = self._lines, self._lines[first]
        indent, end = line[: statement.col_offset], line[len(line.rstrip("\r\n")) :]
        behind = [] if after is None else [f"{indent}{after}{end}"]
        return "".join([*lines[:first], f"{indent}{before}{end}", *lines[first:last], *behind, *lines[last:]])

    def _span(self, node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._offset(node.lineno, node.col_offset), self._offset(node.end_lineno, node.end_col_offset)

    def _offset(self, line: int, column: int) -> int:
        """In characters; columns of the tree count bytes."""
        before, here = self._lines[: line - 1], self._lines[line - 1]
        return sum(map(len, before)) + len(here.encode()[:column].decode(errors="ignore"))

    @cached_property
    def _lines(self) -> list[str]:
        return lines_of(self.text)


class Cure(Protocol):
    """One of them; each lives in its own file, as `CURE`."""

    @property
    def codes(self) -> tuple[str, ...]:
        """Of the diagnostics that it may be for."""

    def changed(self, source: CureSource) -> Iterator[str]:
        """The text of the file with each change that may mend it, the likeliest first."""


def lines_of(text: str) -> list[str]:
    """Lines with their ends, as Python counts them: they go on after other characters that end one elsewhere."""
    return _LINE.findall(text)


def called(node: ast.Call) -> str:
    """The name of the function, without what it is an attribute of."""
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def targets(statement: ast.stmt) -> list[str]:
    """Names that a statement gives a value; of several it is the first that counts."""
    if not isinstance(statement, ast.Assign):
        return []
    first = statement.targets[0]
    first = first.elts[0] if isinstance(first, ast.Tuple) and first.elts else first
    return [first.id] if isinstance(first, ast.Name) else []


def names_replicas(node: ast.AST) -> bool:
    """Whether an expression has the number of replicas in it, or a name for it."""
    parts = list(ast.walk(node))
    named = [each.attr for each in parts if isinstance(each, ast.Attribute)]
    named += [each.id for each in parts if isinstance(each, ast.Name)]
    return any(name == REPLICAS or "replicas" in name for name in named)
