"""What a file of the code says to people: its docstrings, and the sentences that it puts into verdicts."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

_SHORTEST = 60
"""Text of fewer characters is a name, or a piece of a sentence."""
_PER_FILLED = 20
"""Text with fewer characters for each value that is filled in says little without them."""


def opening(module: ModuleType) -> str:
    """The first line of a module's docstring, without `Law:` and the like, as a sentence."""
    line = (inspect.getdoc(module) or "").partition("\n")[0]
    kind, colon, rest = line.partition(": ")
    text = (rest if colon and " " not in kind else line).rstrip(".")
    return f"{text[:1].upper()}{text[1:]}."


def paragraphs(documented: object) -> str:
    """A docstring without its first line, with its attributes as a list."""
    text = (inspect.getdoc(documented) or "").partition("\n")[2].strip()
    text = re.sub(r"^(Attributes|Args):$\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^    (\w+): ", r"- `\1`: ", text, flags=re.MULTILINE)
    return re.sub(r"^ {8}", "  ", text, flags=re.MULTILINE)


def sentences(module: ModuleType) -> list[str]:
    """Every text of a module that is long enough to be a sentence; what is filled in is `…`."""
    tree = ast.parse(Path(str(module.__file__)).read_text())
    documentation = {ast.get_docstring(node, clean=False) for node in ast.walk(tree) if isinstance(node, _DOCUMENTED)}
    found = dict.fromkeys(_texts(tree))
    texts = [text for text in found if len(text) >= _SHORTEST and " " in text and text not in documentation]
    return [text for text in texts if text.count("…") * _PER_FILLED <= len(text)]


_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


def _texts(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(each.value) if isinstance(each, ast.Constant) else "…" for each in node.values)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        for child in ast.iter_child_nodes(node):
            yield from _texts(child)
