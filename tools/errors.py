"""Write what wrong uses are answered into docs/errors.md: `python tools/errors.py`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from tools.mistyped.asking import Answer, answers  # noqa: E402
from tools.pages import DOCS, fill, table  # noqa: E402

PAGE = DOCS / "errors.md"


def answered(found: Sequence[Answer]) -> str:
    """The answers as a table."""
    rows = [(f"`{_text(answer.use)}`", answer.code, _text(answer.text)) for answer in found]
    return table(("somebody writes", "exit code, or error", "and reads"), rows)


def _text(text: str) -> str:
    return text.replace("<", "&lt;")


def main() -> None:
    """See the module."""
    with tempfile.TemporaryDirectory() as folder:
        found = answers(Path(folder))
    fill(PAGE, "errors", answered(found))
    print(f"{PAGE.name}: {len(found)} wrong uses")


if __name__ == "__main__":
    main()
