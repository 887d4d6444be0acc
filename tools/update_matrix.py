"""Fill the matrix in docs/matrix.md from a real run.

`pytest scenarios/ --lockstep-out=DIR`, then `python tools/update_matrix.py DIR`.
"""

from __future__ import annotations

import sys
import textwrap
from collections import Counter
from pathlib import Path

import click
import msgspec

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from harness.report import Cell, Matrix, in_order  # noqa: E402
from tools.pages import DOCS, fill  # noqa: E402

# What GitHub shows of a code block without scrolling.
WIDTH = 120
_NAMES = {"tensorflow": "TensorFlow", "keras": "Keras", "tf_keras": "tf_keras"}


def section(matrix: Matrix) -> str:
    """The matrix as Markdown: a sentence on what ran, the table, then what failed or was skipped and why."""
    cells = in_order(matrix.cells)
    counts = matrix.counts()
    versions = ", ".join(f"{_NAMES.get(name, name)} {version}" for name, version in matrix.versions.items())
    devices = ""
    if matrix.hardware != "cpu":
        used = "; ".join(f"{count} on {device}" for device, count in sorted(matrix.devices().items()))
        devices = f" Cells by what their tasks computed on, each counted for all of it: {used}."
    summary = (
        f"{len(cells)} cells with {versions}, on {matrix.hardware.upper()} devices: {counts['ok']} consistent, "
        f"{counts['known']} known upstream defects ([list](known-issues.md)), {counts['skipped']} skipped, "
        f"{counts['FAIL']} failed. `ok R` is consistent with R = worst observed error / its bound; `ok exact` is "
        f"consistent without any difference.{devices}"
    )
    picture = "```text\n" + "\n".join(_table(Matrix(cells=cells))) + "\n```"
    return "\n\n".join([textwrap.fill(summary, 120), picture, *_reasons(cells)])


def _table(matrix: Matrix) -> list[str]:
    """The lines of the matrix without the notes below it, which `section` words for Markdown."""
    lines = list(matrix.lines(WIDTH))
    last = max(position for position, line in enumerate(lines) if not line)
    return lines[:last]


def _reasons(cells: list[Cell]) -> list[str]:
    told = []
    for outcome, title in (("FAIL", "Failed"), ("skipped", "Skipped")):
        reasons = Counter(cell.reason for cell in cells if cell.outcome == outcome)
        if reasons:
            told.append(f"{title}:\n\n" + "\n".join(f"- {reason} ({count})" for reason, count in reasons.items()))
    return told


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(folder: Path) -> None:
    """Write the matrix of DIR/matrix.json, made with `pytest scenarios/ --lockstep-out=DIR`, into docs/matrix.md.

    One from simulated GPUs goes into docs/matrix-simulated.md.
    """
    matrix = msgspec.json.decode((folder / "matrix.json").read_bytes(), type=Matrix)
    file = DOCS / ("matrix-simulated.md" if matrix.hardware == "gpu-simulated" else "matrix.md")
    fill(file, "matrix", section(matrix))
    click.echo(f"{file.name}: {len(matrix.cells)} cells")


if __name__ == "__main__":
    main()
