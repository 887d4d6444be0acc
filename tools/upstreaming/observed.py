"""Runs a program of `docs/upstream/` and keeps what it shows."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from pathlib import Path

import msgspec

__all__ = ["FOLDER", "KEPT", "Observed", "digest", "kept", "observe"]

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "upstream"
KEPT = Path(__file__).with_name("observed.json")
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


def observe(name: str, python: str = sys.executable) -> Observed:
    """Run it by itself, in this environment or that of another interpreter."""
    told = subprocess.run(
        [python, "-c", _VERSIONS], capture_output=True, text=True, timeout=_SECONDS_MAX, check=True
    ).stdout
    number, packages = msgspec.json.decode(told, type=tuple[str, dict[str, str]])
    hung = False
    try:
        done = subprocess.run(
            [python, FOLDER / f"{name}.py"], capture_output=True, text=True, timeout=_SECONDS_MAX, check=False
        )
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
