"""Notebooks as Jupyter writes them, for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.harness._loop import LOOP

# The loop of the other tests of scripts, cut where people would, with what only a notebook has.
_IMPORTS, _, _REST = LOOP.partition("\nstrategy =")
_DATA, _, _REST = _REST.partition("\ndef step")
_STEP, _, _REST = _REST.partition("\n@tf.function")
_TRAIN, _, _LOOP = _REST.partition("\nfor _ in range")
LOOP_CELLS = (
    f"# A comment.\n%matplotlib inline{_IMPORTS}",
    "",
    f"strategy ={_DATA}\ndisplay(dataset)",
    f"%%time\ndef step{_STEP}",
    f"@tf.function{_TRAIN}",
    f"for _ in range{_LOOP}".replace("int(sys.argv[1])", "2"),
)


def notebook(path: Path, *cells: str, language: str = "python") -> Path:
    """A notebook with these cells of code, and a text between each two."""
    written: list[dict[str, Any]] = []
    for number, source in enumerate(cells):
        lines = source.splitlines(keepends=True)
        written.append({"cell_type": "markdown", "id": f"t{number}", "metadata": {}, "source": ["Then:"]})
        # What a cell has shown may look like another cell.
        shown = [{"name": "stdout", "output_type": "stream", "text": lines}]
        code: dict[str, Any] = {"cell_type": "code", "execution_count": None, "id": f"c{number}", "metadata": {}}
        written.append({**code, "outputs": shown, "source": lines})
    about = {"kernelspec": {"display_name": language, "language": language, "name": language}}
    whole = {"cells": written, "metadata": about, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
    return path
