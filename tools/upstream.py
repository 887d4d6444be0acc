"""Write the issue texts beside the programs of docs/upstream/: `python tools/upstream.py [ID ...]` runs them first."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from harness.judging.known_issues import registry  # noqa: E402
from tools.upstreaming.observed import KEPT, Observed, kept, observe  # noqa: E402
from tools.upstreaming.proposed import TRIED, has_fix, tried, try_fix  # noqa: E402
from tools.upstreaming.text import path_of, text_of  # noqa: E402


@click.command()
@click.argument("ids", nargs=-1)
@click.option("--python", default=sys.executable, help="Run them by this interpreter: of an affected version, say.")
@click.option("--only-texts", is_flag=True, help="Run nothing: write the texts from what was kept of earlier runs.")
@click.option(
    "--package-tests",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A checkout, or site-packages, with the package's own tests: run them without and with a proposed change.",
)
def main(ids: tuple[str, ...], python: str, only_texts: bool, package_tests: Path | None) -> None:
    """Run the programs of these defects, or of all, and write the text of each.

    Where ID.fix.py proposes a change of the package, the program runs once more, with it.
    """
    issues = {issue.id: issue for issue in registry()}
    if unknown := set(ids) - issues.keys():
        raise click.UsageError(f"{', '.join(sorted(unknown))}: not in the registry")
    seen: dict[str, Observed] = kept() if KEPT.exists() else {}
    for name in () if only_texts else ids or tuple(issues):
        seen[name] = observe(name, python)
        click.echo(f"{name}: {' | '.join(seen[name].lines) or seen[name].raised}")
        known = {each: seen[each] for each in issues if each in seen}
        KEPT.write_bytes(msgspec.json.format(msgspec.json.encode(known), indent=1) + b"\n")
        if has_fix(name):
            _try(name, python, package_tests)
    changes = tried()
    for name, found in seen.items():
        if name in issues:
            path_of(name).write_text(text_of(issues[name], found, changes.get(name)))


def _try(name: str, python: str, package_tests: Path | None) -> None:
    """Run the proposed change, and keep what comes of it."""
    found = try_fix(name, python, package_tests)
    changes = {each: change for each, change in {**tried(), name: found}.items() if has_fix(each)}
    TRIED.write_bytes(msgspec.json.format(msgspec.json.encode(dict(sorted(changes.items()))), indent=1) + b"\n")
    click.echo(f"{name}, changed: {' | '.join(found.seen.lines) or found.seen.raised}")
    if found.before and found.after:
        failed = f"{len(found.before.failed)} and {len(found.after.failed)} failed"
        click.echo(f"  tests: {found.before.passed} and {found.after.passed} passed, {failed}")


if __name__ == "__main__":
    main()
