"""README, docs/ and examples/: what they show is executed, and what they name exists.

In a page, every `python` block is executed, all of one page in one namespace, and so is every `console` block, whose
commands are `$ lockstep ...`; shell blocks (`sh`) are only parsed. Every `python` block can be pasted alone. A comment
on the line before a block says more:
`<!-- output -->` before a `text` block that it is what the code above prints, `<!-- from FILE -->` that the block is a
piece of that file, which is run elsewhere, `<!-- not run: REASON -->` that it is not run. Decimal numbers, line breaks
and `...` are not compared.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import itertools
import os
import re
import runpy
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from _lockstep.plugin.hooks import pytest_addoption
from harness.cli import main as lockstep
from harness.judging.known_issues import registry
from harness.judging.laws import all_laws
from harness.judging.tolerance import FLOOR, REPORT, STATE, K
from harness.report import Cell, Matrix
from harness.running.reference_request import FIRST_SEEDS, MORE_SEEDS
from harness.subject.program import Program
from harness.subject.strategies import strategy_case
from harness.tf_tests import plugin as tf_tests
from tests._blocks import PAGES, ROOT, Block, blocks, is_run
from tests._installed import run_there
from tools import soak, sweep, trials, try_wheel, update_matrix, update_tables, words
from tools.pages import filled, region

# What is wrong there is wrong on purpose; tests/test_errors.py holds it to what is answered.
MISTYPED = ROOT / "docs" / "errors.md"
LINKING = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
# What each example must print; the one without an entry is a pytest file.
EXAMPLES = {
    "cluster.py": ["worker:1 returned 3.0, exit code 0", "worker:1: ValueError: shard 1 is empty"],
    "resumable.py": [
        "interrupted after step 5, resumed under mirrored-4 at step 4",
        "train under multi_worker-2: consistent",
        "explanation: slots_not_restored",
    ],
    "verify_custom_loop.py": ["train under multi_worker-2: consistent", "train_wrong under mirrored-2: INCONSISTENT"],
    "verify_keras_fit.py": [
        "train under mirrored-2: consistent",
        "(flavour='tf_keras') under multi_worker-2: consistent",
    ],
}
# These import TensorFlow at once, which a process that starts tasks never does.
PLAIN_EXAMPLES = {"guarded_restore.py": ["restored step 1"]}
PYTEST_EXAMPLE = "test_my_training.py"
# What differs in the functions of each of these examples does not show on one device, or not without an interruption.
ALIKE = ("resumable.py", "verify_custom_loop.py")
# These run in the full profile, and by `make docs`: pages run what is in them, or what is much like it.
DEAR = (
    *("resumable.py", "verify_custom_loop.py", "verify_keras_fit.py"),
    *(
        "checkpoints.md",
        "comparing.md",
        "diagnostics.md",
        "faults.md",
        "getting-started.md",
        "ledger.md",
        "network.md",
        "proof.md",
        "run.md",
        "search.md",
        "writing-programs.md",
    ),
)
# Options of other programs, and the one that click adds.
FOREIGN_OPTIONS = {"--dist", "--draft", "--environment", "--epochs", "--help", "--junitxml", "--pdb", "--version"}
FOREIGN_OPTIONS |= {"--address", "--generate", "--head", "--num-cpus"}  # of `ray`


def _ids(pages: list[Path]) -> list[str]:
    return [str(page.relative_to(ROOT)) for page in pages]


def _run_python(page: Path, block: Block, namespace: dict[str, Any]) -> str:
    code = compile("\n" * (block.line - 1) + block.code, str(page), "exec")
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(code, namespace)
    return out.getvalue()


def _run_lockstep(words: list[str], monkeypatch: pytest.MonkeyPatch) -> tuple[str, int]:
    assert words[0] == "lockstep", f"only lockstep is run, not {words[0]}"
    monkeypatch.setattr(sys, "argv", words)
    with contextlib.redirect_stdout(io.StringIO()) as out, pytest.raises(SystemExit) as end:
        lockstep()
    return out.getvalue(), int(end.value.code or 0)


def _commands(block: Block) -> Iterator[tuple[str, str]]:
    """Each `$ command` with the output that the page shows below it."""
    pieces = re.split(r"^\$ (.*)\n", block.code, flags=re.MULTILINE)
    assert not pieces[0].strip(), f"line {block.line}: a console block begins with `$ `"
    yield from zip(pieces[1::2], pieces[2::2], strict=True)


def _masked(text: str) -> str:
    """Without what may differ from one machine to the next: line breaks, rounding errors and durations."""
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r", worst ratio [-+.e\d]+", "", text)
    text = re.sub(r"would have found errors of: .*? (?=not judged|$)", "would have found errors of: # ", text)
    text = re.sub(r"\b(observed|expected|error|bound|ratio) -?[\d.]+(e[-+]\d+)?", r"\1 #", text)
    return re.sub(r"\d+\.\d+(e[-+]\d+)?", "#", text)


def _assert_prints(shown: str, printed: str) -> None:
    pattern = ".*".join(re.escape(piece) for piece in _masked(shown).split("..."))
    assert re.fullmatch(pattern, _masked(printed)), f"shown:\n{shown}\nprinted:\n{printed}"


def _run_console(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    for command, shown in _commands(block):
        line, _, tail = command.partition(";")
        printed, code = _run_lockstep(shlex.split(line), monkeypatch)
        if tail.strip() == "echo $?":
            printed += f"{code}\n"
        else:
            assert code == 0, f"{command} exits with {code}; show that with `; echo $?`"
        _assert_prints(shown, printed)


@pytest.fixture(autouse=True)
def one_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold the programs of an example against one reference, by whatever name pages and commands call them."""
    found = Program.of

    def of(_: type[Program], program: Any) -> Program:
        file = program.partition(":")[0] if isinstance(program, str) else getattr(program, "__code__", None)
        file = getattr(file, "co_filename", file)
        name = Path(file).name if isinstance(file, str) else ""
        return replace(found(program), digest=name) if name in ALIKE else found(program)

    monkeypatch.setattr(Program, "of", classmethod(of))


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.full] if page.name in DEAR else [], id=page.name)
        for page in PAGES
        if any(map(is_run, blocks(page)))
    ],
)
def test_a_page_runs_and_prints_what_it_shows(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python and console blocks of a page, one after the other, run and have the shown output."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")  # `-- python train.py`
    monkeypatch.delenv("LOCKSTEP_CULPRIT", raising=False)
    if page.name == "getting-started.md":  # which shows all that a verdict says without being asked
        monkeypatch.delenv("LOCKSTEP_PROVE", raising=False)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    try:
        for block in blocks(page):
            if block.note == "output":
                _assert_prints(block.code, printed)
            elif is_run(block) and block.language == "console":
                _run_console(block, monkeypatch)
            elif is_run(block):
                printed = _run_python(page, block, namespace)
    finally:
        shutil.rmtree(ROOT / "lockstep-found", ignore_errors=True)  # where `lockstep search` writes what it finds


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.full] if name in DEAR else []) for name in EXAMPLES]
)
def test_an_example_runs(name: str) -> None:
    """An example, run as a script, ends well and prints its point."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
    for fragment in EXAMPLES[name]:
        assert fragment in out.getvalue(), out.getvalue()


@pytest.mark.full
@pytest.mark.parametrize("name", PLAIN_EXAMPLES)
def test_an_example_without_lockstep_runs(name: str) -> None:
    """A script for users' own programs, run in a process of its own."""
    said = run_there(ROOT, sys.executable, f"examples/{name}").stdout
    for fragment in PLAIN_EXAMPLES[name]:
        assert fragment in said


@pytest.mark.full
def test_the_pytest_example_runs() -> None:
    """The example of a test suite passes in a pytest of its own, and skips what needs GPUs, or passes it."""
    plugins = ("-p", "no:cacheprovider", "-p", "no:xdist")
    done = run_there(ROOT, sys.executable, "-m", "pytest", "-q", *plugins, f"examples/{PYTEST_EXAMPLE}")
    assert re.search(r"^3 passed, 1 skipped|^4 passed", done.stdout, re.MULTILINE), done.stdout


def test_every_exampleis_run() -> None:
    """No file in examples/ is left out of the tests above."""
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == {*EXAMPLES, *PLAIN_EXAMPLES, PYTEST_EXAMPLE}


def test_quoted_pieces_are_in_their_files() -> None:
    """A block that is said to come from a file stands there word for word."""
    quoted = [(page, block) for page in PAGES for block in blocks(page) if block.note.startswith("from ")]
    assert quoted
    for page, block in quoted:
        source = block.note.removeprefix("from ")
        assert block.code in (ROOT / source).read_text(), f"{page.name}:{block.line} is not in {source}"


def _anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to headings."""
    headings = re.findall(
        r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKING, ids=_ids(LINKING))
def test_links_resolve(page: Path) -> None:
    """Every relative link leads to a file of the repository, and every anchor to a heading."""
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, anchor = target.partition("#")
        if path.startswith("https://"):
            continue
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or not file.is_relative_to(ROOT) or (anchor and anchor not in _anchors(file)):
            broken.append(target)
    assert broken == []


def _words(pattern: str) -> set[tuple[str, str]]:
    """(page, match) of everything in README and docs that looks like this."""
    return {(page.name, found) for page in PAGES if page != MISTYPED for found in re.findall(pattern, page.read_text())}


class _Options:
    """Stands in for pytest's parser, and keeps the names of the plugin's options."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def getgroup(self, *_: str) -> _Options:
        return self

    def addoption(self, name: str, **_: Any) -> None:
        self.names.add(name)

    def addini(self, name: str, **_: Any) -> None:
        """No option of the command line."""


def _commands_there() -> set[str]:
    names = {path.stem for path in (ROOT / "harness" / "cli").glob("*.py")}
    return {name for name in names if not name.startswith("_")}


def test_options_exist() -> None:
    """Every option that a page mentions is one of `lockstep`, of the pytest plugin, or of a tool."""
    plugin = _Options()
    pytest_addoption(plugin)  # type: ignore[arg-type]
    tf_tests.pytest_addoption(plugin)  # type: ignore[arg-type]
    commands = [getattr(importlib.import_module(f"harness.cli.{name}"), name) for name in _commands_there()]
    options = [
        option
        for command in [*commands, soak.main, sweep.main, trials.main, try_wheel.main, words.main]
        for option in command.params
    ]
    known = {name for option in options for name in (*option.opts, *option.secondary_opts)}
    mentioned = _words(r"(?<![\w-])--[a-z][a-z-]+")
    assert mentioned
    assert {found for found in mentioned if found[1] not in known | plugin.names | FOREIGN_OPTIONS} == set()


def test_commands_exist() -> None:
    """Every `lockstep COMMAND` in use exists; those of the roadmap do not yet, and leave it when they do."""
    text = (ROOT / "README.md").read_text()
    before, heading, roadmap = text.partition("## Roadmap")
    assert heading
    used = {
        found
        for page in PAGES[1:]
        if page != MISTYPED
        for found in re.findall(r"lockstep ([a-z]{3,})", page.read_text())
    }
    used |= set(re.findall(r"lockstep ([a-z]{3,})", before))
    planned = set(re.findall(r"`lockstep\s([a-z]{3,})", roadmap))
    assert used <= _commands_there()
    assert planned & _commands_there() == set()


def test_strategies_exist() -> None:
    """Every concrete strategy name in the pages and examples is understood."""
    pattern = r"[`\"]((?:mirrored|central_storage|multi_worker|parameter_server)-\d[\w:]*)[`\"]"
    sources = [page.read_text() for page in [*PAGES, *(ROOT / "examples").glob("*.py")]]
    names = set(itertools.chain.from_iterable(re.findall(pattern, source) for source in sources))
    assert len(names) > 3
    assert {strategy_case(name).name for name in names} == names


def test_the_laws_are_complete() -> None:
    """docs/numerics.md lists every law, in the order of reports."""
    section = (ROOT / "docs" / "numerics.md").read_text().partition("## Laws\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == [law.id for law in all_laws()]


def test_the_constants_are_those_of_the_code() -> None:
    """docs/numerics.md states K, FLOOR, STATE, REPORT and the number of perturbed reruns as they are."""
    text = (ROOT / "docs" / "numerics.md").read_text()
    words = {2: "two", 3: "three", 4: "four"}
    for statement in (
        f"**K = {K:g}.**",
        f"**FLOOR = {FLOOR:g}.**",
        f"**STATE = {STATE:g}.**",
        f"**REPORT = {REPORT:g}.**",
        f"K = {K:g}, FLOOR = {FLOOR:g}\n",
    ):
        assert statement in text
    flowing = " ".join(text.split())
    assert f"is run {words[len(FIRST_SEEDS)]} more times" in flowing
    assert f"{words[len(MORE_SEEDS)]} more draws" in flowing


def test_named_tests_and_files_exist() -> None:
    """A test or file that a page names in backquotes is there."""
    missing = []
    for page, (file, function) in {(page, tuple(found)) for page, found in _words(r"(tests/[\w/]+\.py)::(\w+)")}:
        defined = {node.name for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef)}
        if function not in defined:
            missing.append((page, f"{file}::{function}"))
    pattern = r"`((?:simulator|harness|scenarios|tests|docs|examples|benchmarks)/[\w./]*)`"
    missing += [found for found in _words(pattern) if not (ROOT / found[1]).exists()]
    assert missing == []


def test_make_targets_exist() -> None:
    """Every `make TARGET` in a page is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {found for found in _words(r"(?m)(?:`|^ {4})make ([a-z]+)") if found[1] not in targets} == set()


def test_extras_exist_by_the_names_that_every_pip_finds() -> None:
    """Wheels have them in lower case with hyphens, and pip before 23.3 takes no other spelling for the same."""
    text = (ROOT / "pyproject.toml").read_text().partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    there = set(re.findall(r"^([\w-]+) = ", text, re.MULTILINE))
    named = {
        name for _, names in _words(r"pip install [\"'](?:\.|tf-lockstep)\[([\w,-]+)\]") for name in names.split(",")
    }
    assert {"tf-keras"} <= named
    assert {name for name in named if name != "test"} <= there
    assert all(re.fullmatch(r"[a-z-]+", name) for name in there)


@pytest.mark.parametrize("page", update_tables.pages(), ids=lambda page: page.name)
def test_tables_are_up_to_date(page: Path) -> None:
    """The known issues and the rules are those of the code; if not, run `python tools/update_tables.py`."""
    name, table = update_tables.pages()[page]
    assert table.count("\n") > 2
    assert filled(page.read_text(), name, table) == page.read_text()


def test_the_matrix_can_be_filled_and_filled_again() -> None:
    """docs/matrix.md has the region; cells come in the catalogue's order, failures and skips with their reasons."""
    cells = [
        Cell(row="training: fit", strategy="multi_worker-2", outcome="known", reason="some-id: a defect"),
        Cell(row="training: fit", strategy="mirrored-2", outcome="ok", ratio=0.25),
        Cell(row="training: fit", strategy="tpu", outcome="skipped", reason="needs a TPU"),
        Cell(row="training: loop", strategy="mirrored-2", outcome="FAIL", reason="loss differs"),
    ]
    matrix = Matrix(cells=cells, versions={"tensorflow": "2.21.0"})
    page = (ROOT / "docs" / "matrix.md").read_text()
    once = filled(page, "matrix", update_matrix.section(matrix))
    assert filled(once, "matrix", update_matrix.section(matrix)) == once
    shown = region(once, "matrix")
    assert "1 consistent, 1 known upstream defects" in shown
    assert "with TensorFlow 2.21.0, on CPU devices" in shown
    assert re.search(r"training: fit +ok 0\.25 +known +skipped$", shown, re.MULTILINE), shown
    assert "- needs a TPU (1)" in shown
    assert "- loss differs (1)" in shown
    with pytest.raises(ValueError, match="no region"):
        region("no marks", "matrix")


def test_the_first_screen_counts_what_there_is() -> None:
    """Defects are those of the registry, and trials those of the pages that list them."""
    text = " ".join((ROOT / "README.md").read_text().split())
    assert f"[{len(registry())} defects](docs/known-issues.md)" in text
    counts = r"(\d+) with .*? (\d+) of these are found, (\d+) with their line; of the other (\d+) "
    found = re.search(rf"Of \[(\d+) small programs\]\(docs/culprits.md\), {counts}", text)
    assert found is not None
    every, wrong, inconsistent, named, given = map(int, found.groups())
    assert inconsistent + given == wrong
    table = (ROOT / "docs" / "culprits.md").read_text()
    assert f"| wrong programs | {wrong} | {inconsistent} | {given} | {named} | 0 |" in table
    assert f"| right programs | {every - wrong} | 0 |" in table


def test_the_checks_find_what_they_look_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shown output that differs in a word, a count or an exit code is found; rounding and line breaks are let pass."""
    _assert_prints("ratio 0.5 of\n 3 values", "ratio 1e-07 of 3 values\n")
    for shown in ("ratio 0.5 of 4 values", "ratio 0.5 of 3 numbers", "ratio 0.5"):
        with pytest.raises(AssertionError):
            _assert_prints(shown, "ratio 0.5 of 3 values")
    with pytest.raises(AssertionError):
        _run_console(Block("console", "$ lockstep strategies; echo $?\n...\n1\n", "", 1), monkeypatch)
    with pytest.raises(AssertionError):
        _run_console(Block("console", "$ lockstep verify nothing.py:train\n", "", 1), monkeypatch)
