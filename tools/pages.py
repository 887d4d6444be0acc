"""What tools write into pages of docs/: tables in Markdown, between marks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows of cells below a header, as Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def packages() -> str:
    """What was measured with: `TensorFlow 2.21.0 and Keras 3.15.1`."""
    return " and ".join(f"{name} {version(name.lower())}" for name in ("TensorFlow", "Keras"))


def region(text: str, name: str) -> str:
    """What a page has between its marks `<!-- NAME:begin -->` and `<!-- NAME:end -->`.

    Raises:
        ValueError: the marks are missing or out of order.
    """
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    match = re.search(f"{begin}\n(.*?){end}", text, re.DOTALL)
    if match is None:
        raise ValueError(f"there is no region from {begin} to {end}")
    return match[1]


def filled(text: str, name: str, content: str) -> str:
    """The page with this between its marks.

    Raises:
        ValueError: the marks are missing or out of order.
    """
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    return text.replace(f"{begin}\n{region(text, name)}{end}", f"{begin}\n{content}\n{end}")


def fill(page: Path, name: str, content: str) -> None:
    """Write this between the marks of a page."""
    page.write_text(filled(page.read_text(), name, content))
