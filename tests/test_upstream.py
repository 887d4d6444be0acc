"""Every known upstream defect has a minimal program in docs/upstream/ that shows it without Lockstep, and a cure.

A cure is the same program made right, which prints "as it should be" where its numbers are, or another version.
For some a fix is proposed, ID.fix.py, which patches the package in the process: with it the same program is right.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.judging.known_issues import KnownIssue, registry
from tools.upstreaming.observed import run_after
from tools.upstreaming.proposed import fix_of, has_fix

PROGRAMS = Path(__file__).parent.parent / "docs" / "upstream"
LINES_MAX = 30
FIXED = [issue for issue in registry() if has_fix(issue.id)]
CURED = [issue for issue in registry() if issue.cured_by == "program"]
ISSUES = pytest.mark.parametrize("issue", registry(), ids=[issue.id for issue in registry()])
CURES = pytest.mark.parametrize("issue", CURED, ids=[issue.id for issue in CURED])
SECONDS_MAX = 120


def test_programs_and_registry_belong_together() -> None:
    """No entry without a program, no program without an entry; cures are those that the registry tells of."""
    names = {path.name.removesuffix(".py") for path in PROGRAMS.glob("*.py")}
    fixes = {f"{issue.id}.fix" for issue in FIXED}
    assert names == {issue.id for issue in registry()} | {f"{issue.id}.cure" for issue in CURED} | fixes


@pytest.mark.parametrize(
    "name",
    [
        *(issue.id for issue in registry()),
        *(f"{issue.id}.cure" for issue in CURED),
        *(f"{issue.id}.fix" for issue in FIXED),
    ],
)
def test_a_program_is_short_and_knows_nothing_of_lockstep(name: str) -> None:
    """At most 30 lines, which open with what is wrong, and import only what an upstream maintainer has."""
    source = (PROGRAMS / f"{name}.py").read_text()
    tree = ast.parse(source)
    # What is made right may need the space of a class more, and no more of code.
    counted = [line for line in source.splitlines() if not name.endswith((".cure", ".fix")) or line.strip()]
    assert len(counted) <= LINES_MAX
    assert ast.get_docstring(tree)
    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    }
    assert not imported & {"simulator", "harness", "scenarios"}


def _says_whatever_comes(source: str, word: str = "wrong:") -> bool:
    """Whether this is printed on a path that no condition and no error leads to."""
    tree = ast.parse(source)
    under = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}

    def depends(node: ast.AST) -> bool:
        return node in under and (
            isinstance(under[node], (ast.If, ast.IfExp, ast.ExceptHandler)) or depends(under[node])
        )

    return any(
        isinstance(node, ast.Constant) and str(node.value).startswith(word) and not depends(node)
        for node in ast.walk(tree)
    )


# If the save that failed raised, this program would not come to its line.
_AFTER_WHAT_SHOULD_RAISE = {"tf-async-checkpoint-late-error"}
# What is printed after 20 s, unless the program has ended.
_AFTER_A_WHILE = {"keras3-loss-scale-workers-diverge", "keras3-loss-scale-last-worker-diverges"}


@ISSUES
def test_a_program_can_say_that_its_defect_is_gone(issue: KnownIssue) -> None:
    """It says "wrong" only if it was: with a version that is right, its output must be another one."""
    if issue.id not in _AFTER_WHAT_SHOULD_RAISE | _AFTER_A_WHILE:
        assert not _says_whatever_comes((PROGRAMS / f"{issue.id}.py").read_text())


def test_a_program_that_cannot_say_so_is_found() -> None:
    """Two numbers side by side, and no comparison, are shown with every version."""
    assert _says_whatever_comes("print('wrong:', loss, 'right:', 1.0)")
    assert _says_whatever_comes("show(lambda logs: print(f'wrong: {logs} right: 1.0'))")
    assert not _says_whatever_comes("print('well:' if loss == 1.0 else 'wrong:', loss, 'right:', 1.0)")
    assert not _says_whatever_comes("try:\n  step()\nexcept ValueError as error:\n  print('wrong:', error)")


@CURES
def test_a_cure_can_say_that_it_is_none(issue: KnownIssue) -> None:
    """It says "wrong" or "as it should be" by what it finds, and both are possible."""
    source = (PROGRAMS / f"{issue.id}.cure.py").read_text()
    for word in ("wrong:", "as it should be:"):
        assert word in source
        assert not _says_whatever_comes(source, word)


def test_every_entry_tells_of_a_cure() -> None:
    """In a sentence; where nothing cures it the sentence says why."""
    assert all(issue.cure and not issue.cure.endswith(".") for issue in registry())


def _run(name: str, *fix: Path) -> subprocess.CompletedProcess[str]:
    """Run a program; once more if it said nothing and failed.

    Between the moment in which it chooses a port and that in which TensorFlow binds it, others may take the port.
    """
    done = _started(name, *fix)
    return _started(name, *fix) if done.returncode and not done.stdout else done


def _started(name: str, *fix: Path) -> subprocess.CompletedProcess[str]:
    """A program that has ended; most write into a directory of temporary files, and leave that."""
    command = [sys.executable, *run_after(*fix), PROGRAMS / f"{name}.py"]
    with tempfile.TemporaryDirectory() as directory:
        own = {**os.environ, "TMPDIR": directory}
        return subprocess.run(command, env=own, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)


def _ends_right(name: str, done: subprocess.CompletedProcess[str]) -> bool:
    """Whether a program found its numbers as they should be, in each of its tasks."""
    source = (PROGRAMS / f"{name}.py").read_text()
    tasks = 2 if "multiprocessing" in source and "range(2)" in source else 1
    return done.returncode == 0 and "wrong" not in done.stdout and done.stdout.count("as it should be:") >= tasks


def _some(issues: Sequence[KnownIssue], quick: Sequence[str]) -> pytest.MarkDecorator:
    """All in the full profile, and these in the quick one."""
    marks = {issue.id: () if issue.id in quick else (pytest.mark.full,) for issue in issues}
    return pytest.mark.parametrize("issue", [pytest.param(each, id=each.id, marks=marks[each.id]) for each in issues])


@_some(registry(), ["tf-async-write-save-counter"])
def test_a_program_shows_its_defect(issue: KnownIssue) -> None:
    """Run alone, it prints what is wrong, or raises the exception of the entry; in versions without it neither.

    Where it shows it, it is not taken for a cure.
    """
    done = _run(issue.id)
    said = done.stdout + done.stderr
    message = issue.symptom_here.message
    shown = "wrong" in done.stdout or bool(message and message in said)
    assert shown == issue.affects_installed_versions(), said[-3000:]
    assert not (shown and _ends_right(issue.id, done))


@_some(CURED, [])
def test_a_cure_is_right(issue: KnownIssue) -> None:
    """The program made right ends well, with the numbers that it should have, and without the defect's message."""
    if not issue.affects_installed_versions():
        pytest.skip("the installed versions have nothing to be cured")
    done = _run(f"{issue.id}.cure")
    assert _ends_right(f"{issue.id}.cure", done), (done.stdout + done.stderr)[-3000:]


@_some(FIXED, [])
def test_a_fix_mends_the_package(issue: KnownIssue) -> None:
    """The very program that shows the defect ends right after the change; without it, it does not: see above."""
    if not issue.affects_installed_versions():
        pytest.skip("the installed versions have nothing to be mended")
    done = _run(issue.id, fix_of(issue.id))
    assert _ends_right(issue.id, done), (done.stdout + done.stderr)[-3000:]
