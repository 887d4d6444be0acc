"""Runs a program of `docs/upstream/` and keeps what it shows."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "upstream"
KEPT = Path(__file__).with_name("observed.json")
_ABOUT = Path(__file__).with_name("expected.toml")
_VERSIONS = """
import json, platform
from importlib.metadata import PackageNotFoundError, version
found = {}
for name in ("tensorflow", "keras", "tf_keras"):
    try:
        found[name] = version(name)
    except PackageNotFoundError:
        pass
print(json.dumps([platform.python_version(), found]))
"""
# Runs two files in one process, so that the second one meets what the first has changed.
_BOTH = "import runpy, sys; runpy.run_path(sys.argv[1]); runpy.run_path(sys.argv[2], run_name='__main__')"
_SECONDS_MAX = 300
_LINES_MAX = 12


class Observed(msgspec.Struct, frozen=True):
    """What a run of a program has shown.

    Attributes:
        program: digest of its source, so that an output is never taken for that of another program.
        python: version of Python.
        packages: versions.
        lines: what it printed, without logs.
        raised: the last line of its traceback; empty if it ended well.
        hung: whether it was still there after five minutes.
    """

    program: str
    python: str
    packages: dict[str, str]
    lines: tuple[str, ...]
    raised: str = ""
    hung: bool = False


def digest(name: str) -> str:
    """Of the source of a program."""
    return hashlib.sha256((FOLDER / f"{name}.py").read_bytes()).hexdigest()[:16]


@cache
def about() -> dict[str, dict[str, Any]]:
    """What is said of defects here alone, by their ids."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(_ABOUT.read_text())


def run_after(*fix: Path) -> tuple[str | Path, ...]:
    """Arguments of Python before that of a program, by which it runs in the same process after a fix."""
    return ("-c", _BOTH, *fix) if fix else ()


def observe(name: str, python: str = sys.executable, fix: Path | None = None) -> Observed:
    """Run it by itself, in this environment or that of another interpreter; or after a fix of the package."""
    told = subprocess.run(
        [python, "-c", _VERSIONS], capture_output=True, text=True, timeout=_SECONDS_MAX, check=True
    ).stdout
    number, packages = msgspec.json.decode(told, type=tuple[str, dict[str, str]])
    hung, program = False, FOLDER / f"{name}.py"
    command = [python, *run_after(*([fix] if fix else [])), program]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS_MAX, check=False)
        out, err, code = done.stdout, done.stderr, done.returncode
    except subprocess.TimeoutExpired as error:
        out, err, code, hung = _text(error.stdout), _text(error.stderr), 0, True
    tail = [line for line in err.splitlines() if re.match(r"[\w.]+(Error|Exception|Interrupt)\b", line)]
    return Observed(
        program=digest(name),
        python=number,
        packages=packages,
        lines=tuple(_anywhere(line) for line in out.splitlines() if line.strip())[:_LINES_MAX],
        raised=_anywhere(tail[-1]) if code and tail else "",
        hung=hung,
    )


def _text(output: str | bytes | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


def _anywhere(line: str) -> str:
    """A line without the directories of the machine on which it was printed."""
    return re.sub(r"/(?:[\w.-]+/)*(?=tmp[\w-]+)|/(?:[\w.-]+/)+(?=site-packages/)", "", line)


def kept() -> dict[str, Observed]:
    """What was seen of each program, by the id of its defect."""
    return msgspec.json.decode(KEPT.read_bytes(), type=dict[str, Observed])
