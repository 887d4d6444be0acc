"""Runs of `lockstep verify --out` as a page: for each strategy the verdict, its losses, timeline and logs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.report.templates import rendered
from harness.report.timeline import Timeline
from harness.report.timeline.drawing import draw

__all__ = ["Verified", "verified_page"]

_LOG_BYTES_MAX = 20_000
"""Of the end of each log."""


@dataclass(frozen=True)
class Verified:
    """A verdict in its JSON form, the timelines of its runs, and the ends of its tasks' logs by file."""

    verdict: dict[str, Any]
    timelines: tuple[Timeline, ...]
    logs: dict[str, str]

    @classmethod
    def of(cls, verdict: dict[str, Any], timelines: Sequence[Timeline], directory: Path) -> Verified:
        """With the logs below the directory of the run."""
        logs = {str(path.relative_to(directory)): _end(path) for path in sorted(directory.glob("**/logs/*.log"))}
        return cls(verdict, tuple(timelines), logs)

    @property
    def command(self) -> str | None:
        """What verifies this again; of a script the verdict does not have its arguments."""
        program, strategy = self.verdict["program"], self.verdict["strategy"]
        if ":" not in program:
            return None
        exact = " --exact" if self.verdict.get("tier") == "exact" else ""
        return f"lockstep verify {shlex.quote(program)} --strategy {shlex.quote(strategy)}{exact}"


def verified_page(runs: Sequence[Verified]) -> str:
    """Render the page."""
    drawn = [(run, [(timeline, draw(timeline)) for timeline in run.timelines]) for run in runs]
    return rendered("verified.html", drawn=drawn)


def _end(path: Path) -> str:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _LOG_BYTES_MAX))
        text = file.read().decode(errors="backslashreplace")
    return text if size <= _LOG_BYTES_MAX else f"... ({size - _LOG_BYTES_MAX} bytes before)\n{text}"
