"""The house rules that a machine can check: sizes, docstrings, forbidden calls, and which way imports point."""

from __future__ import annotations

import ast
import gc
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests._installed import run_there

ROOT = Path(__file__).parent.parent
FOLDERS = ("_lockstep", "simulator", "harness", "scenarios", "tests", "benchmarks")
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60
LINE_LENGTH_MAX = 120

# From the bottom up: a folder may import from itself and from those before it.
LAYERS = ("simulator", "harness", "scenarios")
OUTSIDE_THE_LAYERS = {"tests", "benchmarks"}
HEAVY = {"keras", "numpy", "tensorflow", "tf_keras"}

# The rooms of each layer, from the bottom up: the folders and files on the top floor of its package. A room may import
# from itself and from rows before its own.
ROOMS: dict[str, tuple[tuple[str, ...], ...]] = {
    "simulator": (
        ("errors", "kernel", "journal"),
        ("arguments", "threads", "topology", "units"),
        ("wire",),
        ("results",),
        # What runs in tasks, and in helper processes, of which the forkserver becomes tasks.
        ("agent",),
        ("helpers",),
        # What runs in the parent.
        ("machines", "out"),
        ("launch",),
        ("hardware",),
        # What runs on another machine, for the parent.
        ("site",),
        ("network",),
        ("capabilities", "run"),
        ("faults",),
        ("cluster",),
    ),
    "harness": (
        ("errors", "damaged_files", "run_directory", "phases", "plugin"),
        ("subject", "evidence"),
        # What runs in client tasks.
        ("recording",),
        ("watch",),
        # What runs in the parent.
        ("ledger", "relations"),
        ("judging",),
        ("running", "report"),
        ("request", "saved_run"),
        ("culprits", "refuting"),
        ("judgement", "proofs"),
        ("attempts",),
        ("assumed_counts", "example_runs"),
        ("verdicts",),
        ("verify",),
        ("cures", "live"),
        ("search", "certifying", "comparing", "bundling", "magic", "audits"),
        ("tf_tests",),
        ("cli",),
    ),
}
# What a process of a run besides the parent may load of its own layer. Whether a file runs there follows from its path.
AWAY_FROM_THE_PARENT = {
    "simulator.agent": {
        "simulator.agent",
        "simulator.wire",
        "simulator.errors",
        "simulator.kernel",
        "simulator.topology",
    },
    "simulator.helpers": {f"simulator.{room}" for room in ("agent", "helpers", "kernel", "threads", "wire")},
    "harness.tf_tests.inside": {"harness.tf_tests.inside"},
    "harness.recording": {"harness.recording", "harness.evidence", "harness.subject"},
}

MAY_PRINT_FOLDERS = ("benchmarks",)


@pytest.fixture(scope="module", autouse=True)
def _uncollected() -> Iterator[None]:
    """Of the million nodes of all trees none is garbage, and to look for some takes longer than to parse."""
    gc.disable()
    yield
    for kept in (_tree, _nodes):
        kept.cache_clear()
    gc.enable()


def _python_files(*folders: str) -> list[Path]:
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path.relative_to(ROOT) for path in files]


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text(), filename=str(path))


@cache
def _nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """All of them; to walk a tree takes as long as to parse it."""
    return tuple(ast.walk(tree))


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in _nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def _imports(tree: ast.Module) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """Yield line, module and imported names of every absolute import, at any depth."""
    for node in _nodes(tree):
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
    for node in _nodes(tree):
        if isinstance(node, ast.Call):
            yield node.lineno, _dotted(node.func)


def _dotted(function: ast.expr) -> str:
    """`time.sleep`; empty for what is no name. `ast.unparse` of all calls takes seconds."""
    if isinstance(function, ast.Name):
        return function.id
    if isinstance(function, ast.Attribute):
        return f"{_dotted(function.value)}.{function.attr}"
    return ""


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
        tree = _tree(path)
        problems += [f"{path}:{line}" for line, name in _calls(tree) if name == "time.sleep"]
        problems += [
            f"{path}:{line}" for line, module, names in _imports(tree) if module == "time" and "sleep" in names
        ]
    _check(problems)


def test_threads_have_one_owner() -> None:
    """Whoever needs a thread asks `simulator.threads`, which gives it a name and an end."""
    owner = Path("simulator/threads.py")
    files = _python_files("_lockstep", "simulator", "harness")
    starting = {path for path in files for _, name in _calls(_tree(path)) if name == "threading.Thread"}
    assert starting == {owner}


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


def _modules(layer: str) -> dict[str, Path]:
    """Every module of a package by its name."""
    return {".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in _python_files(layer)}


def _arrows(layer: str) -> dict[str, set[str]]:
    """Every module of a package, and those modules of it that it imports, at any depth and for types as well."""
    modules = _modules(layer)
    found: dict[str, set[str]] = {}
    for name, path in modules.items():
        found[name] = set()
        for _, module, names in _imports(_tree(path)):
            for imported in [f"{module}.{each}" for each in names] or [module]:
                target = imported if imported in modules else module
                if target in modules and target != name:
                    found[name].add(target)
    return found


def _room(module: str) -> str:
    return [*module.split("."), ""][1]


def _circles(arrows: dict[str, set[str]]) -> list[str]:
    """One line for each module from which arrows lead back to itself."""
    circles = []
    for start in arrows:
        reached: set[str] = set()
        waiting = [start]
        while waiting:
            for target in arrows[waiting.pop()] - reached:
                reached.add(target)
                waiting.append(target)
        if start in reached:
            circles.append(start)
    return circles


@pytest.mark.parametrize("layer", ROOMS)
def test_files_import_in_no_circle(layer: str) -> None:
    """Whoever wants to understand a file can begin with what it imports, and comes to an end."""
    _check(_circles(_arrows(layer)))


@pytest.mark.parametrize("layer", ROOMS)
def test_arrows_between_rooms_point_down(layer: str) -> None:
    """A room uses rooms below its own, and knows nobody who uses it; the package's own `__init__` is above all."""
    floor = {room: number for number, row in enumerate(ROOMS[layer]) for room in row}
    floor[""] = len(ROOMS[layer])
    _check(
        [
            f"{module} imports {target}"
            for module, targets in _arrows(layer).items()
            for target in targets
            if _room(module) != _room(target) and floor[_room(module)] <= floor[_room(target)]
        ]
    )


@pytest.mark.parametrize("layer", ROOMS)
def test_every_room_is_known(layer: str) -> None:
    """The table of rooms is the package's top floor."""
    assert sorted(room for row in ROOMS[layer] for room in row) == sorted(
        {_room(name) for name in _modules(layer)} - {""}
    )


@pytest.mark.parametrize("layer", ROOMS)
def test_the_page_names_every_room(layer: str) -> None:
    """docs/architecture.md has a table of the rooms of each layer, and of no others."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = page.split(f"\n| {layer} | where it runs | holds |\n")[1].split("\n\n")[0]
    cells = [row.split("|")[1] for row in table.splitlines()[1:]]
    named = [room.rstrip("/") for cell in cells for room in re.findall(r"`(.+?)`", cell)]
    assert sorted(named) == sorted(room for row in ROOMS[layer] for room in row)


@pytest.mark.parametrize("place", AWAY_FROM_THE_PARENT)
def test_other_processes_load_nothing_of_the_parent(place: str) -> None:
    """What runs in a task or in a helper process imports no code that is meant for the parent."""
    allowed = AWAY_FROM_THE_PARENT[place]
    _check(
        [
            f"{module} imports {target}"
            for module, targets in _arrows(place.partition(".")[0]).items()
            if module == place or module.startswith(f"{place}.")
            for target in targets
            if not any(target == name or target.startswith(f"{name}.") for name in allowed)
        ]
    )


def test_a_task_loads_nothing_of_the_parent() -> None:
    """Not through the package either: what an unmodified program is counted with, and what calls a function."""
    code = (
        "import sys, simulator, simulator.agent.main, simulator.agent.saves.saving, simulator.agent.steps.patches\n"
        "simulator.step\n"
        "sys.stdout.write(' '.join({name.split('.')[1] for name in sys.modules if name.startswith('simulator.')}))"
    )
    done = run_there(ROOT, sys.executable, "-c", code)
    assert {f"simulator.{room}" for room in done.stdout.split()} <= AWAY_FROM_THE_PARENT["simulator.agent"]


def test_circles_are_found() -> None:
    """Of two files, through a third, and none where arrows only meet."""
    assert _circles({"a": {"b"}, "b": {"a"}}) == ["a", "b"]
    assert _circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == ["a", "b", "c"]
    assert _circles({"a": {"b", "c"}, "b": {"d"}, "c": {"d"}, "d": set()}) == []


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
    loaded = run_there(ROOT, sys.executable, "-c", code).stdout
    assert loaded == "", f"import {module} loads {loaded}"


IMPORT_MS_MAX = 30.0
_TIMES = 15
_IMPORT_MODULES_MAX = 15
_TIMED = """
import importlib, sys, time
{before}
known, began = len(sys.modules), time.process_time()
importlib.import_module({module!r})
sys.stdout.write(f"{{(time.process_time() - began) * 1e3}} {{len(sys.modules) - known}}")
"""


@pytest.mark.parametrize(
    ("module", "before"), [("simulator", ""), ("harness", ""), ("_lockstep.plugin", "import pytest")]
)
def test_import_is_quick(module: str, before: str) -> None:
    """The best of several times, in seconds of the processor, and few modules besides those of what is there anyway.

    A loaded machine makes some of them slower than they are, and none faster.
    """
    best, modules = float("inf"), 0
    for _ in range(_TIMES):
        code = _TIMED.format(before=before, module=module)
        told, loaded = run_there(ROOT, sys.executable, "-c", code).stdout.split()
        best, modules = min(best, float(told)), int(loaded)
        if best < IMPORT_MS_MAX:
            break
    assert best < IMPORT_MS_MAX
    assert modules <= _IMPORT_MODULES_MAX


def test_an_import_that_is_slow_is_found() -> None:
    """All of the package takes more modules than are allowed."""
    code = _TIMED.format(before="", module="harness.verify")
    done = run_there(ROOT, sys.executable, "-c", code)
    assert int(done.stdout.split()[1]) > _IMPORT_MODULES_MAX


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
