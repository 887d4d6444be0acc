"""Runs a program of docs/upstream, or a file of tests, with the Python of an environment."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from harness.judging.known_issues import KnownIssue
from tools.versioning.results import Result

__all__ = ["of_program", "of_tests"]

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "docs" / "upstream"
_WHY_MAX = 300
_COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)")


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
    python: Path, target: str, seconds_max: float, options: tuple[str, ...] = (), *, log: Path | None = None
) -> Result:
    """What pytest says of a file of tests or scenarios; all of its words go into the log."""
    command = [str(python), "-m", "pytest", target, "-q", "--no-header", "-p", "no:cacheprovider", *options]
    code, said, seconds = _run(command, ROOT, seconds_max)
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(said.out + said.err)
    lines = said.out.strip().splitlines()
    counts = {name.rstrip("s"): int(number) for number, name in _COUNT.findall(lines[-1] if lines else "")}
    failed = [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
    why = "; ".join(failed)[: 4 * _WHY_MAX] or ("" if code == 0 else _last(said.out + said.err))
    outcome = {None: "hangs", 0: "passed", 5: "passed"}.get(code, "failed")
    return Result(outcome, seconds, counts, why)


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


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:_WHY_MAX] if lines else ""
