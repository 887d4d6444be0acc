"""Bring the table of docs/faults-measured.md up to date, from saved sessions: `python tools/update_faults.py
OUT...`, where each OUT was written by `pytest --profile=full --lockstep-out OUT` for `scenarios/test_faults.py`,
`test_network.py` and `test_hosts.py`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from tools.pages import DOCS, fill, table  # noqa: E402

PAGE = DOCS / "faults-measured.md"
TITLES = (
    "What training does after each fault",
    "What training does when links are disturbed",
    "What training does between hosts",
)
COLUMNS = ("fault", "strategy", "struck", "at", "detected by", "detection s", "recovery s", "outcome")


@click.command()
@click.argument("out", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(out: Sequence[Path]) -> None:
    """Fill the region of measured faults with the rows of all these sessions."""
    rows = [
        tuple(dict(zip(found["columns"], row, strict=True)).get(column, "") for column in COLUMNS)
        for title in TITLES
        for folder in out
        for found in json.loads((folder / "matrix.json").read_text())["tables"]
        if found["title"] == title
        for row in found["rows"]
    ]
    fill(PAGE, "measured", table(COLUMNS, rows))
    click.echo(f"{PAGE.name}: {len(rows)} rows")


if __name__ == "__main__":
    main()
