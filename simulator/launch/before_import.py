"""What a file sets in its environment before it imports TensorFlow, read off its text: it is not run."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

_READERS = ("tensorflow", "keras", "tf_keras")
"""Packages that read the environment when they are imported."""


@dataclass(frozen=True)
class Before:
    """What a file does at its top before it imports TensorFlow.

    Attributes:
        variables: that it sets, by values that its text has.
        whole: whether these are all that it sets there by `os.environ`.
        imports: whether it imports TensorFlow, or Keras, at all.
        modules: other modules that it imports there, without what is below a package.
    """

    variables: dict[str, str]
    whole: bool
    imports: bool
    modules: frozenset[str] = frozenset()


def before_tensorflow(tree: ast.Module, environ: Mapping[str, str]) -> Before:
    """Read a file, in the order in which Python would run it.

    What stands in a branch or a function, and what is computed, is not known.

    Args:
        tree: the file.
        environ: what is set already, which `os.environ.setdefault` leaves as it is.
    """
    reading = _Reading(environ)
    modules: set[str] = set()
    for node in tree.body:
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) and any(map(_imports_reader, ast.walk(node))):
            return Before(reading.found, reading.whole, imports=True, modules=frozenset(modules))
        modules |= {name.partition(".")[0] for each in ast.walk(node) for name in _imported(each)}
        reading.take(node)
    return Before(reading.found, reading.whole, imports=False, modules=frozenset(modules))


def _imports_reader(node: ast.AST) -> bool:
    return any(name.partition(".")[0] in _READERS for name in _imported(node))


def _imported(node: ast.AST) -> list[str]:
    """The modules that a statement imports by their whole names."""
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    return names + ([node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else [])


class _Reading:
    """Reads statements at the top of a file, one after another.

    Args:
        environ: what is set already.

    Attributes:
        found: what they set.
        whole: whether that is all.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.found: dict[str, str] = {}
        self.whole = True
        self._before = environ
        self._texts: dict[str, str | None] = {}
        # What `os.environ` is called here.
        self._names: set[str] = set()

    def take(self, node: ast.stmt) -> None:
        """Note what a statement sets."""
        if isinstance(node, ast.Import):
            self._names |= {f"{alias.asname or 'os'}.environ" for alias in node.names if alias.name == "os"}
        elif isinstance(node, ast.ImportFrom) and node.module == "os":
            self._names |= {alias.asname or alias.name for alias in node.names if alias.name == "environ"}
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            text = None if node.value is None else self._text(node.value)
            for each in () if node.value is None else ast.walk(node.value):
                if isinstance(each, ast.Call):
                    self._call(each, sure=False)
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                self._assign(target, text)
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            before, more = self._text(node.target), self._text(node.value)
            self._assign(node.target, None if before is None or more is None else before + more)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self._call(node.value)
        else:
            self._forget(node)

    def _forget(self, node: ast.AST) -> None:
        """What a statement may change that is not read, such as a branch, is not known any more."""
        for each in ast.walk(node):
            if isinstance(each, (ast.Name, ast.Subscript)) and not isinstance(each.ctx, ast.Load):
                self._assign(each, None)
            elif isinstance(each, ast.Call):
                self._call(each, sure=False)

    def _assign(self, target: ast.expr, text: str | None) -> None:
        if isinstance(target, ast.Name):
            self._texts[target.id] = text
        elif isinstance(target, ast.Subscript) and self._is_environ(target.value):
            self._set(self._text(target.slice), text)
        elif isinstance(target, (ast.Tuple, ast.List, ast.Starred)):
            self._forget(target)

    def _call(self, call: ast.Call, *, sure: bool = True) -> None:
        if not isinstance(call.func, ast.Attribute) or not self._is_environ(call.func.value):
            return
        texts = [self._text(each) for each in call.args]
        if call.func.attr in ("setdefault", "pop") and texts and texts[0] is not None:
            default = texts[1] if sure and call.func.attr == "setdefault" and len(texts) > 1 else None
            there = {} if call.func.attr == "pop" else {**self._before, **self.found}
            self._set(texts[0], there.get(texts[0], default))
        elif call.func.attr == "update":
            for each in call.args:
                if isinstance(each, ast.Dict):
                    for key, value in zip(each.keys, each.values, strict=True):
                        self._set(None if key is None else self._text(key), self._text(value) if sure else None)
            for keyword in call.keywords:
                self._set(keyword.arg, self._text(keyword.value) if sure else None)

    def _set(self, name: str | None, text: str | None) -> None:
        self.whole = self.whole and name is not None and text is not None
        if name is None:
            return
        self.found.pop(name, None)
        if text is not None:
            self.found[name] = text

    def _is_environ(self, node: ast.expr) -> bool:
        return isinstance(node, (ast.Attribute, ast.Name)) and ast.unparse(node) in self._names

    def _text(self, node: ast.expr) -> str | None:
        """The text that an expression gives, if it can be told."""
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else None
        if isinstance(node, ast.Name):
            return self._texts.get(node.id)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self._text(node.left), self._text(node.right)
            return None if left is None or right is None else left + right
        if isinstance(node, ast.Subscript) and self._is_environ(node.value):
            name = self._text(node.slice)
            return None if name is None else {**self._before, **self.found}.get(name)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            texts = [self._text(each) for each in node.args]
            if self._is_environ(node.func.value) and texts and texts[0] is not None:
                return {**self._before, **self.found}.get(texts[0], texts[1] if len(texts) > 1 else None)
        return None
