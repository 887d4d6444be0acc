"""Write the tables of docs/loss-reduction.md from the closed forms that scenarios/test_loss_reduction.py checks:
`python tools/loss_table.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from scenarios.programs import loss_formulas, loss_table  # noqa: E402
from tools.pages import fill  # noqa: E402

PAGE = ROOT / "docs" / "loss-reduction.md"
REPLICAS = 2


def table() -> str:
    """A row for each way to reduce, first of custom loops, then of `fit`."""
    return "\n".join([*_table("loop", "Custom loops"), "", *_table("fit", "`Model.fit`")])


def _table(loop: str, title: str) -> Iterator[str]:
    yield f"## {title}\n"
    yield f"| reduction | Keras | {' | '.join(str(batch) for batch in loss_formulas.BATCHES)} | source |"
    yield "|" + "---|" * (3 + len(loss_formulas.BATCHES))
    for row in loss_table.ROWS:
        if row.loop == loop:
            flavours = " and ".join("Keras 3" if flavour == "keras" else flavour for flavour in row.flavours)
            cells = " | ".join(loss_table.described(row, batch, REPLICAS) for batch in loss_formulas.BATCHES)
            yield f"| {row.reduction} | {flavours} | {cells} | {row.source} |"


@click.command()
def main() -> None:
    """Bring docs/loss-reduction.md up to date."""
    fill(PAGE, "loss-reduction", table())
    click.echo(f"{PAGE.name}: {len(loss_table.ROWS)} rows")


if __name__ == "__main__":
    main()
