"""Tries a proposed change, `docs/upstream/ID.fix.py`: on the defect's program, and on the package's own tests.

A fix replaces the function at fault in the process that has imported it, and no file of the package.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import msgspec

from tools.upstreaming.observed import FOLDER, Observed, about, digest, observe

TRIED = Path(__file__).with_name("proposed.json")
_TESTS = """
import runpy, sys
import pytest
if sys.argv[1]:
    runpy.run_path(sys.argv[1])
sys.exit(pytest.main(sys.argv[2:]))
"""
_SECONDS_MAX = 3600


class Counted(msgspec.Struct, frozen=True):
    """How a package's tests ended, and the names of those that failed."""

    passed: int
    failed: tuple[str, ...] = ()


class Tried(msgspec.Struct, frozen=True):
    """What came of a fix: the run of the defect's program, and the package's tests without and with it.

    Attributes:
        fix: digest of its source.
        seen: the run of the program after it.
        before: the package's tests of the module at fault, as it is; None where they were not run.
        after: the same tests after the fix.
    """

    fix: str
    seen: Observed
    before: Counted | None = None
    after: Counted | None = None


def fix_of(name: str) -> Path:
    """Where the proposed change of a defect stands: beside its program."""
    return FOLDER / f"{name}.fix.py"


def has_fix(name: str) -> bool:
    """Whether a change is proposed."""
    return fix_of(name).exists()


def own_tests(name: str) -> tuple[str, ...]:
    """The package's own tests of the module at fault, by their paths in its repository."""
    return tuple(about().get(name, {}).get("tests", ()))


def tried() -> dict[str, Tried]:
    """What came of each fix, by the id of its defect."""
    return msgspec.json.decode(TRIED.read_bytes(), type=dict[str, Tried]) if TRIED.exists() else {}


def try_fix(name: str, python: str = sys.executable, tests: Path | None = None) -> Tried:
    """Run the program with the fix, and the package's tests of this folder without and with it.

    Without a folder the counts of an earlier run of the same fix are taken.
    """
    fix, seen = digest(f"{name}.fix"), observe(name, python, fix_of(name))
    if tests is None:
        old = tried().get(name)
        known = old is not None and old.fix == fix and old.seen.packages == seen.packages
        return Tried(fix, seen, old.before, old.after) if old is not None and known else Tried(fix, seen)
    files = [str((tests / each).resolve(strict=True)) for each in own_tests(name)]
    return Tried(fix, seen, _count(files, python, ""), _count(files, python, str(fix_of(name))))


def _count(files: list[str], python: str, fix: str) -> Counted:
    """Run these tests in a process by themselves, by no plugin and no configuration of this checkout."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        options = ["-q", "-c", os.devnull, "--rootdir", folder, "--import-mode=importlib", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [python, "-c", _TESTS, fix, *options, f"--junitxml={report}", *files],
            cwd=folder,
            env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "KERAS_BACKEND": "tensorflow"},
            capture_output=True,
            text=True,
            timeout=_SECONDS_MAX,
            check=False,
        )
        if not report.exists():
            raise RuntimeError(f"the tests did not end: {(done.stdout + done.stderr)[-2000:]}")
        return _read(report)


def _read(report: Path) -> Counted:
    """Of a report in JUnit's format; what was skipped counts for neither."""
    ended: dict[str, list[Any]] = {"passed": [], "failed": []}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314
        kinds = {each.tag for each in case}
        if not kinds & {"failure", "error", "skipped"}:
            ended["passed"].append(case)
        elif not kinds & {"skipped"}:
            ended["failed"].append(f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name')}")
    return Counted(len(ended["passed"]), tuple(sorted(ended["failed"])))
