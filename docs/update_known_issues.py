"""Write the table in docs/known-issues.md from harness/known_issues.toml: `python docs/update_known_issues.py`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from harness.known_issues import KnownIssue, registry  # noqa: E402

__all__ = ["filled", "main", "table"]

BEGIN, END = "<!-- known-issues:begin -->", "<!-- known-issues:end -->"
PAGE = ROOT / "docs" / "known-issues.md"


def table(issues: Iterable[KnownIssue]) -> str:
    """One row for each entry of the registry."""
    rows = ["| id | what happens | strategies | versions | symptom | reference |", "|---|---|---|---|---|---|"]
    for issue in issues:
        cells = (
            f"`{issue.id}`",
            issue.summary,
            ", ".join(f"`{pattern}`" for pattern in issue.strategies),
            ", ".join(f"{name} {specifier}" for name, specifier in issue.packages.items()),
            str(issue.symptom),
            _linked(issue.reference),
        )
        rows.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return "\n".join(rows)


def _linked(reference: str) -> str:
    """A public issue as a link with its number; file and line of a source as they are."""
    match = re.fullmatch(r"https://github\.com/([^/]+/[^/]+)/(?:issues|pull)/(\d+)", reference)
    return reference if match is None else f"[{match[1]}#{match[2]}]({reference})"


def filled(text: str, issues: Iterable[KnownIssue]) -> str:
    """The page with this table between its marks.

    Raises:
        ValueError: the marks are missing.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"there is no region from {BEGIN} to {END}")
    return f"{before}{BEGIN}\n{table(issues)}\n{END}{after}"


@click.command()
def main() -> None:
    """Bring the table in docs/known-issues.md up to date."""
    PAGE.write_text(filled(PAGE.read_text(), registry()))
    click.echo(f"{PAGE.name}: {len(registry())} entries")


if __name__ == "__main__":
    main()
