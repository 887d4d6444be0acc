"""Write what wrong uses are answered into docs/errors.md: `python tools/errors.py`."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from tools.mistyped.asking import Answer, answers  # noqa: E402

__all__ = ["PAGE", "filled", "main", "region"]

PAGE = ROOT / "docs" / "errors.md"
BEGIN, END = "<!-- errors:begin -->", "<!-- errors:end -->"


def region(found: Sequence[Answer]) -> str:
    """The answers as a table."""
    rows = [f"| `{_cell(answer.use)}` | {answer.code} | {_cell(answer.text)} |" for answer in found]
    return "\n".join(["| somebody writes | exit code, or error | and reads |", "|---|---|---|", *rows])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def filled(text: str, found: Sequence[Answer]) -> str:
    """The page with these answers."""
    return re.sub(f"{BEGIN}\n.*?{END}", lambda _: f"{BEGIN}\n{region(found)}\n{END}", text, flags=re.DOTALL)


def main() -> None:
    """See the module."""
    with tempfile.TemporaryDirectory() as folder:
        found = answers(Path(folder))
    PAGE.write_text(filled(PAGE.read_text(), found))
    print(f"{PAGE.name}: {len(found)} wrong uses")


if __name__ == "__main__":
    main()
