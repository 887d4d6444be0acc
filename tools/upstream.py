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
from tools.upstreaming.text import path_of, text_of  # noqa: E402

__all__ = ["main"]


@click.command()
@click.argument("ids", nargs=-1)
@click.option("--python", default=sys.executable, help="Run them by this interpreter: of an affected version, say.")
@click.option("--only-texts", is_flag=True, help="Run nothing: write the texts from what was kept of earlier runs.")
def main(ids: tuple[str, ...], python: str, only_texts: bool) -> None:
    """Run the programs of these defects, or of all, and write the text of each."""
    issues = {issue.id: issue for issue in registry()}
    if unknown := set(ids) - issues.keys():
        raise click.UsageError(f"{', '.join(sorted(unknown))}: not in the registry")
    seen: dict[str, Observed] = kept() if KEPT.exists() else {}
    for name in () if only_texts else ids or tuple(issues):
        seen[name] = observe(name, python)
        click.echo(f"{name}: {' | '.join(seen[name].lines) or seen[name].raised}")
        known = {each: seen[each] for each in issues if each in seen}
        KEPT.write_bytes(msgspec.json.format(msgspec.json.encode(known), indent=1) + b"\n")
    for name, found in seen.items():
        if name in issues:
            path_of(name).write_text(text_of(issues[name], found))


if __name__ == "__main__":
    main()
