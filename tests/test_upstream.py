"""Every known upstream defect has a minimal program in docs/upstream/ that shows it without Lockstep."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from harness.judging.known_issues import KnownIssue, registry

PROGRAMS = Path(__file__).parent.parent / "docs" / "upstream"
LINES_MAX = 30
ISSUES = pytest.mark.parametrize("issue", registry(), ids=[issue.id for issue in registry()])


def test_programs_and_registry_belong_together() -> None:
    """No entry without a program, and no program without an entry."""
    assert {path.stem for path in PROGRAMS.glob("*.py")} == {issue.id for issue in registry()}


@ISSUES
def test_a_program_is_short_and_knows_nothing_of_lockstep(issue: KnownIssue) -> None:
    """At most 30 lines, which open with what is wrong, and import only what an upstream maintainer has."""
    source = (PROGRAMS / f"{issue.id}.py").read_text()
    tree = ast.parse(source)
    assert len(source.splitlines()) <= LINES_MAX
    assert ast.get_docstring(tree)
    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    }
    assert not imported & {"simulator", "harness", "scenarios"}


def _says_wrong_whatever_comes(source: str) -> bool:
    """Whether "wrong" is printed on a path that no condition and no error leads to."""
    tree = ast.parse(source)
    under = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}

    def depends(node: ast.AST) -> bool:
        return node in under and (
            isinstance(under[node], (ast.If, ast.IfExp, ast.ExceptHandler)) or depends(under[node])
        )

    return any(
        isinstance(node, ast.Constant) and str(node.value).startswith("wrong:") and not depends(node)
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
        assert not _says_wrong_whatever_comes((PROGRAMS / f"{issue.id}.py").read_text())


def test_a_program_that_cannot_say_so_is_found() -> None:
    """Two numbers side by side, and no comparison, are shown with every version."""
    assert _says_wrong_whatever_comes("print('wrong:', loss, 'right:', 1.0)")
    assert _says_wrong_whatever_comes("show(lambda logs: print(f'wrong: {logs} right: 1.0'))")
    assert not _says_wrong_whatever_comes("print('well:' if loss == 1.0 else 'wrong:', loss, 'right:', 1.0)")
    assert not _says_wrong_whatever_comes("try:\n  step()\nexcept ValueError as error:\n  print('wrong:', error)")


@pytest.mark.full
@ISSUES
def test_a_program_shows_its_defect(issue: KnownIssue) -> None:
    """Run alone, it prints what is wrong, or raises the exception of the entry; in versions without it neither."""
    done = subprocess.run(
        [sys.executable, PROGRAMS / f"{issue.id}.py"], capture_output=True, text=True, timeout=120, check=False
    )
    said = done.stdout + done.stderr
    message = issue.symptom_here.message
    shown = "wrong" in done.stdout or bool(message and message in said)
    assert shown == issue.affects_installed_versions(), said[-3000:]
