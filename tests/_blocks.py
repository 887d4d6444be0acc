"""The fenced blocks of README and docs/, with the comment that says of each whether it is run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@dataclass(frozen=True)
class Block:
    """A fenced block of a page; `note` is the comment right before it, `line` the number of its first line of code."""

    language: str
    code: str
    note: str
    line: int


def blocks(page: Path) -> list[Block]:
    fence = re.compile(
        r"^(?:<!-- (?P<note>.*?) -->\n)?^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
    )
    text = page.read_text()
    return [
        Block(match["language"], match["code"], match["note"] or "", text.count("\n", 0, match.start("code")) + 1)
        for match in fence.finditer(text)
    ]


def is_run(block: Block) -> bool:
    return block.language in ("python", "console") and not block.note.startswith(("not run: ", "from "))
