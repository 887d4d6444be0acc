"""The house rules that a machine can check: sizes, docstrings, forbidden calls, and which way imports point."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("_lockstep", "simulator", "harness", "scenarios", "tests", "benchmarks")
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60
LINE_LENGTH_MAX = 120

# From the bottom up: a folder may import from itself and from those before it.
LAYERS = ("simulator", "harness", "scenarios")
OUTSIDE_THE_LAYERS = {"tests", "benchmarks"}
HEAVY = {"keras", "numpy", "tensorflow", "tf_keras"}

# Files exempt from one rule, each with the reason.
MAY_SLEEP: dict[str, str] = {}
MAY_PRINT_FOLDERS = ("benchmarks",)


def _python_files(*folders: str) -> list[Path]:
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path.relative_to(ROOT) for path in files]


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text(), filename=str(path))


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def _imports(tree: ast.Module) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """Yield line, module and imported names of every absolute import, at any depth."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, ()
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.lineno, node.module, tuple(alias.name for alias in node.names)


def _run_on_import(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the import statements that importing a module executes: not those in functions or under TYPE_CHECKING."""
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, ast.If):
            if "TYPE_CHECKING" not in ast.unparse(node.test):
                yield from _run_on_import(node.body)
            yield from _run_on_import(node.orelse)
        elif isinstance(node, ast.Try):
            for block in (node.body, node.orelse, node.finalbody, *(handler.body for handler in node.handlers)):
                yield from _run_on_import(block)
        elif isinstance(node, (ast.ClassDef, ast.With)):
            yield from _run_on_import(node.body)


def _calls(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node.lineno, ast.unparse(node.func)


def _check(problems: list[str]) -> None:
    assert not problems, "\n" + "\n".join(problems)


def test_files_are_short() -> None:
    """No Python file is longer than the limit."""
    lengths = {path: len((ROOT / path).read_text().splitlines()) for path in _python_files(*FOLDERS)}
    _check([f"{path}: {lines} lines" for path, lines in lengths.items() if lines > FILE_LINES_MAX])


def test_lines_are_short() -> None:
    """No line of Python is longer than the limit, docstrings included."""
    _check(
        [
            f"{path}:{number}: {len(line)} characters"
            for path in _python_files(*FOLDERS, "examples")
            for number, line in enumerate((ROOT / path).read_text().splitlines(), start=1)
            if len(line) > LINE_LENGTH_MAX
        ]
    )


def test_functions_are_short() -> None:
    """No function is longer than the limit, its docstring included."""
    problems = []
    for path in _python_files(*FOLDERS):
        for function in _functions(_tree(path)):
            lines = (function.end_lineno or function.lineno) - function.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                problems.append(f"{path}:{function.lineno}: {function.name} has {lines} lines")
    _check(problems)


def test_modules_say_what_they_are_for() -> None:
    """Every module opens with a docstring whose first line is a whole sentence."""
    problems = []
    for path in _python_files(*FOLDERS, "examples"):
        first = (ast.get_docstring(_tree(path)) or "").split("\n\n")[0]
        if not first.endswith((".", "?", ":")):
            problems.append(f"{path}: opens with {first!r}")
    _check(problems)


def test_tests_say_what_they_test() -> None:
    """Every test function has a docstring."""
    _check(
        [
            f"{path}:{function.lineno}: {function.name}"
            for path in _python_files("tests", "scenarios")
            for function in _functions(_tree(path))
            if function.name.startswith("test_") and not ast.get_docstring(function)
        ]
    )


def test_nothing_prints() -> None:
    """Output goes through click or a report; only benchmarks print."""
    folders = [folder for folder in FOLDERS if folder not in MAY_PRINT_FOLDERS]
    _check(
        [f"{path}:{line}" for path in _python_files(*folders) for line, name in _calls(_tree(path)) if name == "print"]
    )


def test_nothing_sleeps() -> None:
    """A wait is for an event with a deadline, never for a length of time."""
    problems = []
    for path in _python_files("_lockstep", "simulator", "harness", "tests"):
        if str(path) in MAY_SLEEP:
            continue
        tree = _tree(path)
        problems += [f"{path}:{line}" for line, name in _calls(tree) if name == "time.sleep"]
        problems += [
            f"{path}:{line}" for line, module, names in _imports(tree) if module == "time" and "sleep" in names
        ]
    _check(problems)


def test_exemptions_are_needed() -> None:
    """Every exempted file exists and really does what it is exempted for."""
    for path in MAY_SLEEP:
        assert any(name.endswith("sleep") for _, name in _calls(_tree(Path(path)))), path


def test_imports_point_down() -> None:
    """Scenarios use the harness, the harness uses the simulator, and nothing points the other way."""
    problems = []
    for layer, folder in enumerate(LAYERS):
        forbidden = {*LAYERS[layer + 1 :], *OUTSIDE_THE_LAYERS}
        for path in _python_files(folder):
            problems += [
                f"{path}:{line}: imports {module}"
                for line, module, _ in _imports(_tree(path))
                if module.split(".")[0] in forbidden
            ]
    _check(problems)


def test_layers_use_public_names_only() -> None:
    """What a layer imports from the one below is public: neither a private module nor a private name."""
    problems = []
    for folder in LAYERS:
        for path in _python_files(folder):
            for line, module, names in _imports(_tree(path)):
                top = module.split(".")[0]
                private = any(part.startswith("_") and part != "__future__" for part in (*module.split("."), *names))
                if top in LAYERS and top != folder and private:
                    problems.append(f"{path}:{line}: imports {module} {' '.join(names)}")
    _check(problems)


def test_no_heavy_import_at_module_level() -> None:
    """TensorFlow, Keras and NumPy are imported inside functions, which run in tasks."""
    problems = []
    for path in _python_files("_lockstep", "simulator", "harness"):
        for node in _run_on_import(_tree(path).body):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            problems += [f"{path}:{node.lineno}: imports {name}" for name in modules if name.split(".")[0] in HEAVY]
    _check(problems)


@pytest.mark.parametrize("module", ["simulator", "harness", "harness.plugin", "harness.cli", "_lockstep.plugin"])
def test_import_is_light(module: str) -> None:
    """Importing a public package loads neither TensorFlow nor NumPy."""
    code = f"import sys, {module}; sys.stdout.write(' '.join(sorted({HEAVY!r} & set(sys.modules))))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "", f"import {module} loads {done.stdout}"


def test_the_checks_find_what_they_look_for() -> None:
    """The helpers see an import in a function, skip it where only import time counts, and skip TYPE_CHECKING."""
    tree = ast.parse(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import numpy\n"
        "try:\n    import keras\nexcept ImportError:\n    pass\n"
        "def body():\n    import tensorflow\n    time.sleep(1)\n"
    )
    assert {module for _, module, _ in _imports(tree)} == {"typing", "numpy", "keras", "tensorflow"}
    assert [ast.unparse(node) for node in _run_on_import(tree.body)] == [
        "from typing import TYPE_CHECKING",
        "import keras",
    ]
    assert list(_calls(tree)) == [(10, "time.sleep")]
