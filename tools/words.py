"""Count the words by hand of README and docs/, page by page: `python tools/words.py`, `--at REVISION` for an earlier one.

A word is a piece between blanks that has a letter or a digit. A word by hand is one that somebody wrote as prose: in a
paragraph, an item, a heading or a cell of a table. Code blocks do not count. Neither do generated regions, between
`<!-- NAME:begin -->` and `<!-- NAME:end -->`, nor the changelog, nor docs/upstream/, which `tools/upstream.py` writes.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from functools import reduce
from operator import add
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from tools.reading.figures import Figures, figures, glossary  # noqa: E402

__all__ = ["WORDS_MAX", "main", "pages", "table"]

# More than these nobody reads, and nobody keeps right.
WORDS_MAX = 45_000
GLOSSARY = "docs/glossary.md"


def pages(at: str | None = None) -> dict[str, str]:
    """The text of each page that was written by hand, of the checkout or of a revision."""
    if at is None:
        found = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
        return {str(path.relative_to(ROOT)): path.read_text() for path in (*found, *sorted(ROOT.glob("docs/*.md")))}
    listed = _git("ls-tree", "--name-only", at, "README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/").splitlines()
    return {name: _git("show", f"{at}:{name}") for name in listed if name.endswith(".md")}


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def table(texts: Mapping[str, str]) -> tuple[str, Figures]:
    """A row for each page, and the figures of all pages together."""
    terms = glossary(texts[GLOSSARY])
    rows = ["| page | words | words a sentence | passive | terms without an explanation |", "|---|---|---|---|---|"]
    of = {name: figures(text, terms) for name, text in texts.items()}
    for name, one in of.items():
        rows.append(_row(name.removeprefix("docs/"), one, ", ".join(sorted(one.undefined))))
    every = reduce(add, of.values())
    rows.append(_row("**all**", every, str(sum(len(one.undefined) for one in of.values()))))
    return "\n".join(rows), every


def _row(name: str, one: Figures, undefined: str) -> str:
    return f"| {name} | {one.words} | {one.words_per_sentence:.1f} | {one.passive_share:.0%} | {undefined} |"


@click.command()
@click.option("--at", help="A revision of git, instead of the checkout.")
def main(at: str | None) -> None:
    """Print the table; the exit code is 1 if there are more than 45,000 words."""
    shown, every = table(pages(at))
    click.echo(shown)
    sys.exit(int(every.words > WORDS_MAX))


if __name__ == "__main__":
    main()
