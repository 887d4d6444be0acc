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
