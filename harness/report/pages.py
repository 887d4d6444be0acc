"""Self-contained HTML pages: a matrix whose cells open their verdicts, verified runs, proofs, and searches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.relations import Proof
from harness.report.matrix import Matrix
from harness.report.templates import rendered
from harness.report.timeline import Timeline
from harness.report.timeline.drawing import draw

# Of the end of each log.
_LOG_BYTES_MAX = 20_000


def matrix_page(matrix: Matrix, again: str = "") -> str:
    """Colours say how much of a bound was used; there are filters, and cells that open their verdicts."""
    table = [cell for cell in matrix.cells if cell.strategy]
    # By number, since names may hold anything.
    numbers = {id(cell): number for number, cell in enumerate(matrix.cells)}
    return rendered(
        "matrix.html",
        again=again,
        matrix=matrix,
        rows=list(dict.fromkeys(cell.row for cell in table)),
        columns=list(dict.fromkeys(cell.strategy for cell in table)),
        cells={(cell.row, cell.strategy): cell for cell in table},
        number=lambda cell: numbers[id(cell)],
    )


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


def verified_page(runs: Sequence[Verified], again: str = "") -> str:
    """For each strategy the verdict, its losses, timeline and logs."""
    drawn = [(run, [(timeline, draw(timeline)) for timeline in run.timelines]) for run in runs]
    return rendered("verified.html", again=again, drawn=drawn)


def _end(path: Path) -> str:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _LOG_BYTES_MAX))
        text = file.read().decode(errors="backslashreplace")
    return text if size <= _LOG_BYTES_MAX else f"... ({size - _LOG_BYTES_MAX} bytes before)\n{text}"


def proofs_page(proofs: Sequence[Proof], again: str = "") -> str:
    """For each strategy whether a step is right for every batch, and what that rests on."""
    return rendered("proofs.html", again=again, proofs=proofs)


@dataclass(frozen=True)
class StepTold:
    """What a page shows of a step that was judged.

    Attributes:
        start: how often the job had been started, with this time.
        step: its number.
        where: what it is called.
        outcome: as of a verdict.
        ratio: the largest error over its bound, where that is known.
        texts: what is wrong with it, or why it was not judged.
    """

    start: int
    step: int
    where: str
    outcome: str
    ratio: float | None
    texts: tuple[str, ...]


def judged_page(steps: Sequence[StepTold], summary: str) -> str:
    """For each start of a job the ratio over its steps, and those that are not consistent."""
    starts = []
    for number in sorted({each.start for each in steps}):
        found = sorted((each for each in steps if each.start == number), key=lambda each: each.step)
        known = [each for each in found if each.ratio is not None and math.isfinite(each.ratio)]
        course = {
            "steps": [each.step for each in known],
            "observed": [each.ratio for each in known],
            "expected": [1.0] * len(known),
        }
        told = [each for each in found if each.outcome != "consistent"]
        starts.append({"number": number, "steps": found, "course": course, "told": told})
    return rendered("judged.html", starts=starts, summary=summary)


def search_page(timelines: Sequence[Timeline], again: str = "", **told: Any) -> str:
    """What a search has tried, and of what it has found all that there is.

    Args:
        timelines: of a run that failed.
        again: as of `rendered`.
        told: `program` and `strategy`, `headline`, `coverage`, whether anything was `tried`, what is `failing`, and of
            each of the `runs` its number, plan, whether it failed, and outcome.
    """
    return rendered("search.html", again=again, drawn=[(each, draw(each)) for each in timelines], **told)
