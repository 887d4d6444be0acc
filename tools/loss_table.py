"""Write docs/loss-reduction.md from the closed forms that scenarios/test_loss_reduction.py checks: `python
tools/loss_table.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from scenarios.programs import loss_formulas, loss_table  # noqa: E402

__all__ = ["main", "page"]

PAGE = ROOT / "docs" / "loss-reduction.md"
REPLICAS = 2
HEADER = """\
# What each way to reduce a loss trains with

Two replicas, by the closed forms in `scenarios/programs/loss_formulas.py`, which `scenarios/test_loss_reduction.py`
checks under every strategy against what TensorFlow does (three and four replicas likewise). Each cell is **loss /
gradient**: what is reported and what is applied, as a multiple of what one device has. "mean of replica means" is the
average of the replicas' own averages, which weights replicas equally however many examples they have. The batches: 12
examples, which two replicas divide; 7, which they do not; 1, of which the second replica gets nothing. In `fit`, loss
is that of the epoch (`History`). Where a mask hides padding, two examples of the first half are: Keras divides by a
replica's own number of those that are left, so that padded sequences weight replicas otherwise in every batch.

The rows hold under MirroredStrategy, MultiWorkerMirroredStrategy and CentralStorageStrategy, except that Keras 3 `fit`
raises under MultiWorkerMirroredStrategy. Those of Keras 3 hold from Keras 3.8 on; before, its losses were not divided
by the number of replicas ([versions](versions.md)).
"""


def page() -> str:
    """The whole page."""
    return "\n".join([HEADER, *_table("loop", "Custom loops"), *_table("fit", "`Model.fit`")])


def _table(loop: str, title: str) -> Iterator[str]:
    yield f"## {title}\n"
    yield f"| reduction | Keras | {' | '.join(str(batch) for batch in loss_formulas.BATCHES)} | source |"
    yield "|" + "---|" * (3 + len(loss_formulas.BATCHES))
    for row in loss_table.ROWS:
        if row.loop == loop:
            flavours = " and ".join("Keras 3" if flavour == "keras" else flavour for flavour in row.flavours)
            cells = " | ".join(loss_table.described(row, batch, REPLICAS) for batch in loss_formulas.BATCHES)
            yield f"| {row.reduction} | {flavours} | {cells} | {row.source} |"
    yield ""


@click.command()
def main() -> None:
    """Bring docs/loss-reduction.md up to date."""
    PAGE.write_text(page())
    click.echo(f"{PAGE.name}: {len(loss_table.ROWS)} rows")


if __name__ == "__main__":
    main()
