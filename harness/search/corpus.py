"""What searches of one program have shown so far, kept in a directory from one search to the next."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from harness.search.pytest_file import name_of_test
from harness.search.situations import Coverage, Point, State
from simulator import FaultPlan, UsageError

_PLANS_MAX = 200
# As a cell of a table has it.
_BAR = "\\|"
_DIGITS = 6


@dataclass
class Corpus:
    """What is known of a program under a strategy.

    Attributes:
        coverage: the situations, those that faults have met, and states of the job.
        pairs: how often kills struck at two places one after the other, by place and task of both.
        plans: those that showed something new, the latest last.
        failing: those that the program did not survive.
    """

    coverage: Coverage = field(default_factory=Coverage)
    pairs: Counter[tuple[str, ...]] = field(default_factory=Counter)
    plans: list[FaultPlan] = field(default_factory=list)
    failing: list[FaultPlan] = field(default_factory=list)


class _Kept(msgspec.Struct, frozen=True):
    """The same as JSON, which has texts as keys only."""

    points: list[Point]
    met: list[tuple[Point, int]]
    states: list[tuple[State, int]]
    pairs: list[tuple[tuple[str, ...], int]]
    plans: list[dict[str, Any]]
    failing: list[dict[str, Any]]


def name_of_corpus(program: str, strategy: str) -> str:
    """A name for what is known of `FILE.py:FUNCTION` under a strategy, which no other file or function has."""
    file = os.path.relpath(program.rpartition(":")[0])
    place = hashlib.sha256(file.encode()).hexdigest()[:_DIGITS]
    return f"{Path(file).stem}_{name_of_test(program, strategy)}_{place}"


def read_corpus(folder: Path, name: str) -> Corpus:
    """What `write_corpus` has left under this name; nothing known where it has left nothing.

    Raises:
        UsageError: the file is something else.
    """
    file = folder / f"{name}.json"
    if not file.exists():
        return Corpus()
    try:
        kept = msgspec.json.decode(file.read_bytes(), type=_Kept)
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(f"{file} is not what a search keeps there: {error}") from None
    coverage = Coverage(tuple(kept.points), Counter(dict(kept.met)), Counter(dict(kept.states)))
    plans, failing = (list(map(FaultPlan.from_mapping, each)) for each in (kept.plans, kept.failing))
    return Corpus(coverage, Counter(dict(kept.pairs)), plans, failing)


def write_corpus(folder: Path, name: str, corpus: Corpus) -> None:
    """Keep it as `NAME.json`, whole whatever ends the search, and a page of what was reached as `NAME.md`."""
    folder.mkdir(parents=True, exist_ok=True)
    coverage = corpus.coverage
    kept = _Kept(
        list(coverage.points),
        sorted(coverage.met.items()),
        sorted(coverage.states.items()),
        sorted(corpus.pairs.items()),
        [plan.to_mapping() for plan in corpus.plans[-_PLANS_MAX:]],
        [plan.to_mapping() for plan in corpus.failing],
    )
    new = folder / f"{name}.new"
    new.write_bytes(msgspec.json.format(msgspec.json.encode(kept)) + b"\n")
    new.replace(folder / f"{name}.json")
    (folder / f"{name}.md").write_text(_page(name, coverage))


def _page(name: str, coverage: Coverage) -> str:
    rows = [f"| {point} | {coverage.met[point]} |" for point in coverage.points]
    again = [f"| {point} | {times} |" for point, times in sorted(coverage.met.items()) if point.incarnation]
    told = [(f"{kind}: {', '.join(words)}", runs) for (kind, *words), runs in sorted(coverage.states.items())]
    states = [f"| {state.replace('|', _BAR)} | {runs} |" for state, runs in told]
    parts = [
        f"# What faults have met in {name}",
        f"{coverage}.",
        "\n".join(["| situation | faults |", "| --- | --- |", *rows, *again]),
        "\n".join(["| state of the job | runs |", "| --- | --- |", *states]),
    ]
    return "\n\n".join(parts) + "\n"
