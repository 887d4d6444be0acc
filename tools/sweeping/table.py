"""What a sweep shows, a row for each family, and whether that is as it should be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from tools.pages import packages
from tools.pages import table as markdown
from tools.sweeping.judging import Injected, Result

HEADER = (
    "family",
    "right programs",
    "accused",
    "abstained",
    "worst ratio",
    "errors injected",
    "caught",
    "not judged",
    "coarser",
    "missed",
    "least ratio caught",
)


def table(results: Sequence[Result]) -> str:
    """Markdown, with a last row for all families together."""
    families = sorted({result.family for result in results})
    rows = [_row(family, [result for result in results if result.family == family]) for family in families]
    if len(rows) > 1:
        rows.append(_row("all", results))
    return markdown(HEADER, rows)


def section(results: Sequence[Result], seeds: range) -> str:
    """The table for a page, after a sentence on where its numbers come from."""
    which = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    return f"Measured with {packages()} on CPU devices, {which} of each family.\n\n{table(results)}"


def _row(family: str, results: Sequence[Result]) -> tuple[str, ...]:
    outcomes = Counter(result.outcome for result in results)
    errors = [each for result in results for each in result.injected if each.fate != "no effect"]
    fates = Counter(each.fate for each in errors)
    worst = max((result.worst_ratio for result in results), default=0.0)
    least = min((each.ratio for each in _caught(errors) if each.ratio is not None), default=None)
    failed = f" ({outcomes['failed']} failed)" if outcomes["failed"] else ""
    return (
        family,
        f"{len(results)}{failed}",
        str(outcomes["accused"]),
        str(outcomes["abstained"]),
        f"{worst:.2g}",
        str(len(errors)),
        *(_share(fates[fate], len(errors)) for fate in ("caught", "not judged", "coarser", "missed")),
        "" if least is None else f"{least:.3g}",
    )


def _share(count: int, of: int) -> str:
    return f"{count} ({100 * count / of:.0f} %)" if count else "0"


def _caught(errors: Iterable[Injected]) -> Iterable[Injected]:
    return (each for each in errors if each.fate == "caught")


def wrong(result: Result) -> bool:
    """Whether a case is not as it should be: accused although right, failed, or an error in it was missed."""
    return result.outcome in ("accused", "failed") or any(each.fate == "missed" for each in result.injected)


def failures(results: Iterable[Result]) -> list[str]:
    """A paragraph on each case that is wrong: how to replay it, and what happened."""
    return [_paragraph(result) for result in results if wrong(result)]


def _paragraph(result: Result) -> str:
    replay = f"{result.family}-{result.seed} under {result.strategy} (--family {result.family} --seed {result.seed})"
    lines = [replay] if result.outcome == "consistent" else [f"{replay}: {result.outcome}", result.text]
    missed = [each for each in result.injected if each.fate == "missed"]
    if missed:
        worst = min(missed, key=lambda each: float("inf") if each.ratio is None else each.ratio)
        lines.append(
            f"{len(missed)} of {len(result.injected)} errors missed, the furthest from its bound: {_at(worst)}"
        )
    return "\n  ".join(lines)


def _at(each: Injected) -> str:
    when = "at the end" if each.step is None else f"step {each.step}"
    ratio = "" if each.ratio is None else f", ratio {each.ratio:.2g}"
    return (
        f"{when}, {each.observable} {each.name!r}{list(each.index)} = {each.expected:.3g} "
        f"(largest of the array {each.largest:.3g}){ratio}"
    )


def as_json(results: Sequence[Result]) -> Any:
    """Plain data: every result, with every error."""
    return msgspec.to_builtins({"results": results})
