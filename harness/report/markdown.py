"""A matrix in Markdown: what CI systems show of a job, such as GitHub's `$GITHUB_STEP_SUMMARY`."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from harness.report.matrix import Cell, Matrix
from simulator.agent.places import place

__all__ = ["markdown"]

_MARKS = {"ok": "✅", "known": "⚠️", "skipped": "⏭️", "FAIL": "❌"}


def markdown(matrix: Matrix) -> str:
    """What came out, the failures with their culprit's line and cure, and the whole table folded away."""
    return "\n".join([*_lines(matrix), ""])


def _lines(matrix: Matrix) -> Iterator[str]:
    versions = ", ".join(f"{name} {text}" for name, text in matrix.versions.items())
    counts = ", ".join(f"{_MARKS[outcome]} {count} {outcome}" for outcome, count in matrix.counts().items() if count)
    yield f"## Lockstep: {counts or 'nothing ran'}"
    yield ""
    yield f"{versions}, on {matrix.hardware}"
    failed = [cell for cell in matrix.cells if cell.outcome == "FAIL"]
    if failed:
        yield from ("", "| failed | strategy | why | line |", "|---|---|---|---|")
        for cell in failed:
            yield f"| {_text(cell.label)} | {_text(cell.strategy)} | {_text(_why(cell))} | {_culprit(cell)} |"
    known = [cell for cell in matrix.cells if cell.outcome == "known"]
    if known:
        yield from ("", f"<details><summary>{len(known)} known upstream defects</summary>", "")
        yield from (f"- {_text(cell.label)} {_text(cell.strategy)}: {_text(cell.reason)}" for cell in known)
        yield from ("", "</details>")
    yield from ("", "<details><summary>The matrix</summary>", "", "| | strategy | |", "|---|---|---|")
    yield from (f"| {_text(cell.label)} | {_text(cell.strategy)} | {_text(cell.text)} |" for cell in matrix.cells)
    yield from ("", "</details>")


def _why(cell: Cell) -> str:
    explained = [verdict["explanation"] for verdict in cell.verdicts if verdict.get("explanation")]
    return f"{explained[0]['rule']}: {explained[0]['text']}" if explained else cell.reason


def _culprit(cell: Cell) -> str:
    found = next((verdict["culprit"] for verdict in cell.verdicts if verdict.get("culprit")), None)
    if found is None:
        return ""
    return f"<code>{_text(place(found['file'], found['line']) + '  ' + found['source'])}</code>"


def _text(text: str) -> str:
    """One cell of a table: no markup, no columns, no lines of its own."""
    escaped = re.sub(r"([\\`*_\[\]~])", r"\\\1", html.escape(" ".join(text.split()), quote=False))
    return escaped.replace("|", "\\|")
