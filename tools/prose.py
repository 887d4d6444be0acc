"""Hold README and docs/ to the rules of the house for prose: `python tools/prose.py [PAGE]...`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from tools.reading.checking import findings  # noqa: E402
from tools.words import WORDS_MAX, counted, pages  # noqa: E402


@click.command()
@click.argument("only", metavar="[PAGE]...", nargs=-1)
def main(only: tuple[str, ...]) -> None:
    """Print each finding with page and line; the exit code is 1 if there is one, or too many words."""
    texts = pages()
    found = [
        f"{name}:{line}: {said}"
        for name, text in texts.items()
        if not only or name in only
        for line, said in findings(text)
    ]
    words = sum(one.words for one in counted(texts).values())
    if words > WORDS_MAX:
        found.append(f"{words} words by hand, not more than {WORDS_MAX} (`python tools/words.py` has them by page)")
    for each in found:
        click.echo(each)
    sys.exit(int(bool(found)))


if __name__ == "__main__":
    main()
