"""Runs the `if __name__ == "__main__":` block of a test module for what it sets up, without the tests it would run."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from harness.tf_tests.inside import clients
from harness.tf_tests.inside.state import STATE

_STACK = "__lockstep_contexts__"
# What the contexts of a block have changed stays until the process ends, as it does while tests run in the block.
_contexts = contextlib.ExitStack()


def temporary() -> str:
    """The flag of absl that names a directory for temporary files."""
    return f"--test_tmpdir={STATE.scratch}/tmp"  # noqa: S108 - in a directory of our own


def find(source: str) -> list[ast.stmt] | None:
    """The statements of the block, or None if there is none."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Compare):
            names = [each.id for each in ast.walk(node.test) if isinstance(each, ast.Name)]
            if names == ["__name__"]:
                return node.body
    return None


class _KeepOpen(ast.NodeTransformer):
    """`with a as b: body` becomes `b = stack.enter_context(a); body`, so that nothing is undone at its end."""

    def visit_With(self, node: ast.With) -> list[ast.stmt]:
        entered: list[ast.stmt] = []
        for item in node.items:
            enter = ast.Attribute(ast.Name(_STACK, ast.Load()), "enter_context", ast.Load())
            call = ast.Call(enter, [item.context_expr], [])
            entered.append(ast.Assign([item.optional_vars], call) if item.optional_vars else ast.Expr(call))
        self.generic_visit(node)
        return [*entered, *node.body]


def keep_open(body: list[ast.stmt]) -> ast.Module:
    """The statements as a module in which contexts, once entered, are never left."""
    module: ast.Module = _KeepOpen().visit(ast.Module(body, []))
    return ast.fix_missing_locations(module)


def run(module: ModuleType) -> bool:
    """Run the module's block; whether it has one."""
    assert module.__file__ is not None
    body = find(Path(module.__file__).read_text(encoding="utf-8"))
    if body is None:
        return False
    with contextlib.ExitStack() as stack:
        for owner in _owners():
            stack.enter_context(mock.patch.object(owner, "main", _nothing))
        stack.enter_context(mock.patch("absl.app.run", _nothing))
        if (dtensor := clients.library()) is not None:
            stack.enter_context(mock.patch.object(dtensor, "multi_client_main", clients.note))
        module.__dict__[_STACK] = _contexts
        exec(compile(keep_open(body), module.__file__, "exec"), module.__dict__)  # noqa: S102 - the module's own code
    return True


def call_deferred() -> None:
    """What modules have asked absl to call when flags are parsed, with `app.call_after_init`."""
    from absl import app

    # No other way is offered without running the program.
    callbacks: Any = vars(app)["_init_callbacks"]
    while callbacks:
        callbacks.popleft()()


def _owners() -> Iterator[object]:
    """Whatever has a `main` that runs tests."""
    import unittest

    import tensorflow as tf
    from absl.testing import absltest
    from tensorflow.python.eager import test as eager_test
    from tensorflow.python.platform import googletest
    from tensorflow.python.platform import test as platform_test

    candidates = (googletest, platform_test, eager_test, absltest, unittest, tf.test, tf.compat.v1.test)
    return (each for each in candidates if hasattr(each, "main"))


def _nothing(*args: object, **kwargs: object) -> None:
    """In the place of what would run the tests and exit."""
