"""What was measured, in a file to which each result is added as it comes, so that an interrupted run goes on."""

from __future__ import annotations

from pathlib import Path

import msgspec


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of one thing in one environment.

    Attributes:
        outcome: of a program: `shown`, `gone` (it ended without its defect), `other` (it raised something else) or
            `hangs`; of a file of tests or scenarios `passed`, `failed` or `hangs`.
        seconds: that it took.
        counts: of tests, by outcome.
        why: the last line of what it said, unless it is as hoped for.
    """

    outcome: str
    seconds: float
    counts: dict[str, int] = {}
    why: str = ""


class Measured(msgspec.Struct):
    """Versions by environment, and results by environment and by what was run, such as `upstream/NAME`."""

    versions: dict[str, dict[str, str]] = {}
    results: dict[str, dict[str, Result]] = {}


def read(file: Path) -> Measured:
    """What a file holds; nothing where there is none."""
    return msgspec.json.decode(file.read_bytes(), type=Measured) if file.exists() else Measured()


def write(file: Path, measured: Measured) -> None:
    """Replace the file by what is known now, wholly or not at all."""
    new = file.with_suffix(".new")
    new.write_bytes(msgspec.json.format(msgspec.json.encode(measured), indent=1) + b"\n")
    new.replace(file)
