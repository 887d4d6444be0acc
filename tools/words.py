"""Count the words by hand of README and docs/, page by page: `python tools/words.py`.

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

from tools.pages import fill  # noqa: E402
from tools.reading.figures import Figures, figures, glossary  # noqa: E402

# More than these nobody reads, and nobody keeps right.
WORDS_MAX = 45_000
GLOSSARY = "docs/glossary.md"
PAGE = ROOT / "docs" / "words.md"
HEADER = "| page | words | words a sentence | passive | terms without an explanation |\n|---|---|---|---|---|"


def pages(at: str | None = None) -> dict[str, str]:
    """The text of each page with words by hand, of the checkout or of a revision."""
    if at is None:
        found = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
        return {str(path.relative_to(ROOT)): path.read_text() for path in (*found, *sorted(ROOT.glob("docs/*.md")))}
    listed = _git("ls-tree", "--name-only", at, "README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/").splitlines()
    return {name: _git("show", f"{at}:{name}") for name in listed if name.endswith(".md")}


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def counted(texts: Mapping[str, str]) -> dict[str, Figures]:
    """The figures of each page."""
    terms = glossary(texts[GLOSSARY])
    return {name: figures(text, terms) for name, text in texts.items()}


def table(now: Mapping[str, Figures], before: Mapping[str, Figures]) -> str:
    """A row for each page and one for all; in each cell the figure of `before` comes first, where there is one."""
    every = (reduce(add, now.values()), reduce(add, before.values()) if before else None)
    rows = [_row(name.removeprefix("docs/"), one, before.get(name)) for name, one in now.items()]
    return "\n".join([HEADER, *rows, _row("**all**", *every)])


def _row(name: str, now: Figures, before: Figures | None) -> str:
    shown = [_cells(each) for each in (before, now) if each is not None]
    return f"| {name} | " + " | ".join(" to ".join(dict.fromkeys(cells)) for cells in zip(*shown, strict=True)) + " |"


def _cells(one: Figures) -> tuple[str, ...]:
    return str(one.words), f"{one.words_per_sentence:.1f}", f"{one.passive_share:.0%}", str(len(one.undefined))


@click.command()
@click.option("--before", help="A revision of git, whose figures stand before those of the checkout.")
@click.option("--page", is_flag=True, help="Write the table into docs/words.md.")
def main(before: str | None, page: bool) -> None:
    """Print the table; the exit code is 1 if there are more than 45,000 words."""
    now = counted(pages())
    shown = table(now, counted(pages(before)) if before else {})
    click.echo(shown)
    for name, one in now.items():
        if one.undefined:
            click.echo(f"{name}: {', '.join(sorted(one.undefined))}", err=True)
    if page:
        fill(PAGE, "words", shown)
    sys.exit(int(sum(one.words for one in now.values()) > WORDS_MAX))


if __name__ == "__main__":
    main()
