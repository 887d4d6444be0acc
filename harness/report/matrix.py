"""The matrix of a session: strategies across, scenarios down, one outcome in each cell."""

from __future__ import annotations

import html
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from harness.judging.resolution import Resolution, described
from harness.report.tables import Table
from harness.subject.strategies import catalogue
from simulator.agent.places import place

# Worst last: the order in which a row's or a session's worst outcome is chosen.
OUTCOMES = ("ok", "skipped", "known", "FAIL")
_COLUMN = 11
_LABEL_MAX = 48
# The number of a GPU, by which replicas differ and kinds do not: `GPU 0: NVIDIA H100` or `SIMULATED GPU 0 (...`.
_NUMBER = re.compile(r"^GPU \d+: |(?<=GPU) \d+(?= \()")


class Cell(msgspec.Struct, frozen=True):
    """One scenario under one strategy.

    Attributes:
        row: the scenario, without the strategy.
        strategy: name of the strategy; empty for a scenario that has none.
        outcome: one of `OUTCOMES`.
        ratio: the worst observed error divided by its bound, over all laws; `None` when nothing was compared with a
            bound.
        seconds: how long the test took.
        reason: why it was skipped, what is known, or the first line of what failed.
        verdicts: the verdicts reached, in their JSON form.
        test: what runs it again, as pytest takes it.
    """

    row: str
    strategy: str
    outcome: str
    ratio: float | str | None = None
    seconds: float = 0.0
    reason: str = ""
    verdicts: tuple[dict[str, Any], ...] = ()
    test: str = ""

    @property
    def label(self) -> str:
        """The row as a sentence: the test's name with spaces, then its parameters."""
        name, bracket, parameters = self.row.partition("[")
        return name.replace("_", " ") + (f" [{parameters}" if bracket else "")

    @property
    def text(self) -> str:
        """What stands in the matrix: the outcome, and for `ok` how much of the bound was used."""
        # A test that expects an inconsistent verdict is ok too, but its ratio is no measure of consistency.
        consistent = all(verdict.get("consistent") for verdict in self.verdicts)
        if self.outcome == "ok" and consistent and isinstance(self.ratio, (int, float)):
            return f"ok {self.ratio:.2g}" if self.ratio else "ok exact"
        return self.outcome

    @property
    def devices(self) -> tuple[str, ...]:
        """What its verdicts say that tasks computed on, none twice, and without the numbers of GPUs."""
        tasks = (task for verdict in self.verdicts for task in verdict.get("tasks", {}).values())
        found = (str(device) for task in tasks for device in task.get("devices", ()))
        kinds = ("cpu" if device.startswith("cpu:") else _NUMBER.sub("", device) for device in found)
        return tuple(sorted(set(kinds)))

    @property
    def on_devices(self) -> bool:
        """Whether any task computed on something else than a CPU."""
        return bool(set(self.devices) - {"cpu"})

    @property
    def resolution(self) -> str:
        """How small an error its verdicts would have found, in words; empty without bounds."""
        found = [verdict["resolution"] for verdict in self.verdicts if verdict.get("resolution")]
        return "; ".join(described(msgspec.convert(each, dict[str, Resolution])) for each in found)


def in_order(cells: Iterable[Cell]) -> list[Cell]:
    """Cells by strategy, kinds and names as in the catalogue, then by row: not as a parallel session finished them."""
    named = {case.name: number for number, case in enumerate(catalogue())}
    # A strategy that the catalogue does not list stands after the last one of its kind.
    kinds = {case.kind: number for number, case in enumerate(catalogue())}

    def key(cell: Cell) -> tuple[float, str, str]:
        kind = cell.strategy.partition("-")[0]
        return named.get(cell.strategy, kinds.get(kind, len(named)) + 0.5), cell.strategy, cell.row

    return sorted(cells, key=key)


class Matrix(msgspec.Struct):
    """All cells of a session, with what they were run on, and the tables that its tests filled."""

    cells: list[Cell] = []
    versions: dict[str, str] = {}
    hardware: str = "cpu"
    tables: list[Table] = []

    def counts(self) -> dict[str, int]:
        """How many cells have each outcome."""
        return {outcome: sum(cell.outcome == outcome for cell in self.cells) for outcome in OUTCOMES}

    def devices(self) -> dict[str, int]:
        """How many cells were computed on each kind of device, as the tasks themselves have said."""
        return dict(Counter(device for cell in self.cells for device in cell.devices))

    def lines(self, width: int) -> Iterator[str]:
        """The matrix as text, in blocks of as many strategies as fit into `width` characters, then the notes."""
        table = [cell for cell in self.cells if cell.strategy]
        rows = sorted({cell.label for cell in table})
        columns = _unique(cell.strategy for cell in table)
        by_place = {(cell.label, cell.strategy): cell for cell in table}
        label = min(max((len(row) for row in rows), default=0), _LABEL_MAX) + 1
        per_block = max(1, (width - label) // _COLUMN)
        for start in range(0, len(columns), per_block):
            block = columns[start : start + per_block]
            used = [row for row in rows if any((row, column) in by_place for column in block)]
            yield from _header(block, label)
            for row in used:
                *above, last = textwrap.wrap(row, label - 1, subsequent_indent="  ", break_on_hyphens=False)
                yield from above
                cells = (by_place.get((row, column)) for column in block)
                yield last.ljust(label) + "".join((cell.text if cell else "").ljust(_COLUMN) for cell in cells).rstrip()
            yield ""
        yield from self._notes()

    def _notes(self) -> Iterator[str]:
        counts = self.counts()
        yield ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
        yield "ok R: consistent, R = worst observed error / its bound"
        if any(cell.text == "ok" for cell in self.cells):
            yield "ok: the test passed; it reached no verdict with a bound, or one that is inconsistent"
        if set(used := self.devices()) - {"cpu"} or self.hardware != "cpu":
            shown = "; ".join(f"{count} on {device}" for device, count in sorted(used.items()))
            yield f"hardware {self.hardware}; cells by what their tasks computed on: {shown or 'none'}"
        for outcome, title in (("FAIL", "FAIL"), ("known", "known upstream"), ("skipped", "skipped")):
            reasons: dict[str, list[Cell]] = {}
            for cell in self.cells:
                if cell.outcome == outcome:
                    reasons.setdefault(cell.reason, []).append(cell)
            for reason, cells in reasons.items():
                where = _unique(cell.strategy or cell.row for cell in cells)
                yield f"{title}: {reason}  [{', '.join(where)}]"

    def to_json(self) -> bytes:
        """The matrix as JSON, for tools."""
        found = {"counts": self.counts(), "devices": self.devices(), **msgspec.to_builtins(self)}
        return msgspec.json.format(msgspec.json.encode(found))


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _header(names: Sequence[str], label: int) -> Iterator[str]:
    """Names broken at their joints into lines of at most the column's width, aligned at the bottom."""
    broken = [_break(name) for name in names]
    height = max(len(lines) for lines in broken)
    for level in range(height):
        parts = (([""] * (height - len(lines)) + lines)[level] for lines in broken)
        yield (" " * label + "".join(part.ljust(_COLUMN) for part in parts)).rstrip()


def _break(name: str) -> list[str]:
    """`mirrored-2:hierarchical_copy` in lines short enough for a column, broken at its joints where possible."""
    lines = [""]
    for piece in name.replace("_", "_\0").replace("-", "\0-").replace(":", "\0:").split("\0"):
        for part in textwrap.wrap(piece, _COLUMN - 1) or [""]:
            if len(lines[-1]) + len(part) >= _COLUMN:
                lines.append("")
            lines[-1] += part
    return lines


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
