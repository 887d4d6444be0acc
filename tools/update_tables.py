"""Write the tables in docs/ that follow from the code: `python tools/update_tables.py`.

docs/known-issues.md shows known_issues.toml; docs/numerics.md the rules and docs/architecture.md the seams of the
witness, by the first line of their files; docs/ledger.md the causes.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from harness.judging import explain  # noqa: E402
from harness.judging.explain import causes as causes_package  # noqa: E402
from harness.judging.known_issues import KnownIssue, registry  # noqa: E402
from tools.pages import DOCS, fill, table  # noqa: E402
from tools.upstreaming.proposed import has_fix  # noqa: E402


def pages() -> dict[Path, tuple[str, str]]:
    """For each page with a table, the name in its marks and the table."""
    return {
        DOCS / "known-issues.md": ("known-issues", known_issues(registry())),
        DOCS / "numerics.md": ("rules", rules()),
        DOCS / "ledger.md": ("causes", causes()),
        DOCS / "architecture.md": ("seams", seams()),
    }


def known_issues(issues: Iterable[KnownIssue]) -> str:
    """One row for each entry of the registry."""
    rows = (
        (
            f"`{issue.id}`",
            issue.summary,
            ", ".join(f"`{pattern}`" for pattern in issue.strategies),
            ", ".join(f"{name} {specifier}" for name, specifier in issue.packages.items()),
            "; ".join(map(str, (issue.symptom, *issue.otherwise))),
            ", ".join(map(_linked, (issue.reference, *issue.threads))),
            _cure(issue) + _change(issue),
        )
        for issue in issues
    )
    return table(("id", "what happens", "strategies", "versions", "symptom", "reference", "way out"), rows)


def _linked(reference: str) -> str:
    """A public issue as a link with its number; file and line of a source as they are."""
    match = re.fullmatch(r"https://github\.com/([^/]+/[^/]+)/(?:issues|pull)/(\d+)", reference)
    return reference if match is None else f"[{match[1]}#{match[2]}]({reference})"


def _cure(issue: KnownIssue) -> str:
    """What to do, with the program that does it; or why there is nothing."""
    if issue.cured_by == "nothing":
        return issue.way_out
    return f"{issue.cure} ([program](upstream/{issue.id}.cure.py))" if issue.cured_by == "program" else issue.cure


def _change(issue: KnownIssue) -> str:
    """The change of the package that is proposed, if there is one."""
    return f"; [proposed change](upstream/{issue.id}.md#proposed-change)" if has_fix(issue.id) else ""


def rules() -> str:
    """One row for each file of rules, in the order in which they are tried."""
    rows: dict[str, list[str]] = {}
    for rule in explain.all_rules():
        rows.setdefault(explain.says(rule.id), []).append(f"`{rule.id}`")
    return table(("rule", "says"), ((", ".join(ids), says) for says, ids in rows.items()))


def causes() -> str:
    """One row for each cause of wrong examples, in the order in which they are named."""
    return table(("cause", "says"), [(f"`{cause.id}`", cause.what) for cause in causes_package.all_causes()])


def seams() -> str:
    """One row for each seam of the witness: a file with a function `active`."""
    rows = []
    for path in sorted((ROOT / "harness" / "recording" / "witness").glob("[a-z]*.py")):
        module = ast.parse(path.read_text())
        if any(isinstance(node, ast.FunctionDef) and node.name == "active" for node in module.body):
            rows.append((f"`{path.stem}`", (ast.get_docstring(module) or "").partition("\n")[0]))
    return table(("seam", "sees"), rows)


@click.command()
def main() -> None:
    """Bring the tables in docs/ up to date."""
    for page, (name, content) in pages().items():
        fill(page, name, content)
        click.echo(f"{page.name}: {content.count(chr(10)) - 1} rows")


if __name__ == "__main__":
    main()
