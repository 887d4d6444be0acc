"""Runs a program of docs/upstream, or a file of tests, with the Python of an environment."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from harness.judging.known_issues import KnownIssue
from tools.versioning.results import Result

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "docs" / "upstream"
_WHY_MAX = 300
_FAILED = ("failed", "error")


def of_program(python: Path, issue: KnownIssue, seconds_max: float) -> Result:
    """Whether the program of a defect shows it."""
    with tempfile.TemporaryDirectory() as folder:
        code, said, seconds = _run([str(python), str(PROGRAMS / f"{issue.id}.py")], Path(folder), seconds_max)
    if "wrong" in said.out or (issue.symptom.message and issue.symptom.message in said.out + said.err):
        return Result("shown", seconds)
    if code is None:
        return Result("hangs", seconds, why=f"had not ended after {seconds_max:g} s")
    why = _last(said.out + said.err) if code else _last(said.out)
    return Result("other" if code else "gone", seconds, why=why)


def of_tests(
    python: Path, targets: Sequence[str], seconds_max: float, options: tuple[str, ...] = (), *, log: Path | None = None
) -> dict[str, Result]:
    """What pytest says of files of tests or scenarios, by file, in one session; all of its words go into the log.

    A file that the session has nothing of, since it could not go on, failed with what was said last.
    """
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "told.xml")
        # The older family has the file of each test.
        report = [f"--junit-xml={told}", "-o", "junit_family=xunit1", "--continue-on-collection-errors"]
        command = [str(python), "-m", "pytest", *targets, "-q", "--no-header", "-p", "no:cacheprovider", *report]
        code, said, seconds = _run([*command, *options], ROOT, seconds_max)
        cases = list(ET.parse(told).iter("testcase")) if told.exists() else []  # noqa: S314 - just written
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(said.out + said.err)
    lacking = Result("hangs" if code is None else "failed", seconds, why=_error(said.err) or _last(said.out + said.err))
    found = {target: [case for case in cases if case.get("file") == target] for target in targets}
    nothing = Result("passed", 0.0) if code in (0, 1, 5) and cases else lacking
    return {target: _counted(those) if those else nothing for target, those in found.items()}


def _counted(cases: Sequence[ET.Element]) -> Result:
    """Of one file."""
    outcomes = [(_outcome(case), case) for case in cases]
    failed = [f"{how.upper()} {case.get('name')}: {_why(case)}" for how, case in outcomes if how in _FAILED]
    seconds = round(sum(float(case.get("time", 0)) for case in cases), 1)
    counts = dict(Counter(how for how, _ in outcomes))
    return Result("failed" if failed else "passed", seconds, counts, "; ".join(failed)[: 4 * _WHY_MAX])


def _outcome(case: ET.Element) -> str:
    for tag, outcome in (("error", "error"), ("failure", "failed")):
        if case.find(tag) is not None:
            return outcome
    skipped = case.find("skipped")
    if skipped is None:
        return "passed"
    return "xfailed" if skipped.get("type") == "pytest.xfail" else "skipped"


def _why(case: ET.Element) -> str:
    lines = next(filter(None, (child.get("message") for child in case)), "").splitlines()
    return lines[0][:_WHY_MAX] if lines else ""


class _Said:
    def __init__(self, out: str, err: str) -> None:
        self.out, self.err = out, err


def _run(command: list[str], folder: Path, seconds_max: float) -> tuple[int | None, _Said, float]:
    """Exit code, or None after the time is over, with which everything is killed that it has started."""
    began = time.monotonic()
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    # A program of several processes may end before the last of them, so what is waited for is the end of the pipes.
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    code: int | None
    try:
        out, err = process.communicate(timeout=seconds_max)
        code = process.returncode
    except subprocess.TimeoutExpired:
        _end(process)
        out, err = process.communicate()
        code = None
    finally:  # also of an interrupted run nothing may be left
        _end(process)
    return code, _Said(out, err), round(time.monotonic() - began, 1)


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _error(text: str) -> str:
    return next((line[:_WHY_MAX] for line in text.splitlines() if " error: " in line), "")


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:_WHY_MAX] if lines else ""
