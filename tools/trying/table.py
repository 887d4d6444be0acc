"""What trials show: a row for each, what is wrong before what is right, and the totals."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from tools.pages import packages
from tools.pages import table as markdown
from tools.trying.running import Fate, Result

_FATES: tuple[Fate, ...] = ("right", "wrong", "none")


def section(results: Sequence[Result], before: Mapping[str, Result]) -> str:
    """What a page shows: totals, the wrong programs, and those right ones of which something was said."""
    accused = [result for result in _right(results) if result.outcome != "consistent" or _accuses(result)]
    parts = [
        f"Measured with {packages()} on CPU devices.",
        summary(results, before),
        "## Wrong programs",
        table(_wrong(results), before),
        "## Right programs that were accused",
        table(accused, before) if accused else f"None of {len(_right(results))}.",
    ]
    return "\n\n".join(parts)


def summary(results: Sequence[Result], before: Mapping[str, Result]) -> str:
    """The totals, before next to now where there is a before."""
    wrong, right = _wrong(results), _right(results)
    earlier = [before[result.name] for result in wrong if result.name in before]
    rows = []
    if earlier:
        rows.append(("wrong programs, before", *_totals(earlier)))
    rows.append(("wrong programs", *_totals(wrong)))
    earlier = [before[result.name] for result in right if result.name in before]
    if earlier:
        rows.append(("right programs, before", *_totals(earlier)))
    rows.append(("right programs", *_totals(right)))
    header = ("", "programs", "found inconsistent", "a condition", *(f"culprit {fate}" for fate in _FATES))
    lines = [markdown((*header, *(f"rule {fate}" for fate in _FATES)), rows)]
    found = [result for result in wrong if result.outcome == "inconsistent" and result.diagnostic]
    if lengths := [len(result.diagnostic.splitlines()) for result in found]:
        lines.append(f"A diagnostic has {statistics.median(lengths):g} lines, the longest {max(lengths)}.")
    if tried := [result for result in found if result.cure is not None]:
        mended = sum(bool(result.cure) for result in tried)
        lines.append(f"`--fix` mends {mended} of {len(tried)} on which it was tried in this run.")
    return "\n\n".join(lines)


def table(results: Sequence[Result], before: Mapping[str, Result]) -> str:
    """Markdown, a row for each result."""
    header = ["program", "mistake", "culprit", "rule", "named", "s"]
    if before:
        header.insert(5, "before: culprit, rule")
    return markdown(header, [_row(result, before) for result in results])


def _row(result: Result, before: Mapping[str, Result]) -> tuple[str, ...]:
    said = f"condition `{result.condition}`" if result.is_condition else result.outcome
    found = "" if result.outcome == "inconsistent" or result.mistake is None else f" ({said})"
    cells = [
        f"`{result.name}`",
        f"{result.mistake or 'right'}{found}",
        result.blame.culprit,
        result.blame.rule,
        _named(result),
        f"{result.seconds:.0f}",
    ]
    if before:
        earlier = before.get(result.name)
        cells.insert(5, "" if earlier is None else f"{earlier.blame.culprit}, {_rule(earlier)}")
    return tuple(cells)


def _rule(result: Result) -> str:
    return result.blame.rule + (f" (`{result.rule}`)" if result.rule else "")


def _named(result: Result) -> str:
    line = None if result.culprit is None else f"{result.culprit.line}: `{result.culprit.source}`"
    return "; ".join(filter(None, (line, f"`{result.rule}`" if result.rule else None)))


def _accuses(result: Result) -> bool:
    return result.rule is not None or result.culprit is not None


def _wrong(results: Sequence[Result]) -> list[Result]:
    return [result for result in results if result.mistake is not None]


def _right(results: Sequence[Result]) -> list[Result]:
    return [result for result in results if result.mistake is None]


def _totals(results: Sequence[Result]) -> tuple[str, ...]:
    by: tuple[Callable[[Result], Fate], ...] = (lambda one: one.blame.culprit, lambda one: one.blame.rule)
    counts = [str(Counter(map(fate_of, results))[fate]) for fate_of in by for fate in _FATES]
    found = sum(result.outcome == "inconsistent" for result in results)
    return str(len(results)), str(found), str(sum(result.is_condition for result in results)), *counts
