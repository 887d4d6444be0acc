"""Measure what links do and write the table in docs/network.md: `python tools/link_table.py`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from tools import pages  # noqa: E402
from tools.pages import DOCS, fill  # noqa: E402
from tools.soaking.measuring import KINDS, Measured, measured  # noqa: E402

PAGE = DOCS / "network.md"
_WHO = {"loss": "nftables, at the receiver", "rate": "tbf, at the sender", "delay": "the relay"}
_NONE = (
    ("loss", "TCP, UDP", "loopback", "refused", "there are no packets to lose"),
    ("rate, delay", "UDP", "loopback", "not asked", "datagrams do not pass the relay"),
    ("delay", "UDP", "namespaces", "not asked", "datagrams do not pass the relay"),
)


def table(found: Sequence[Measured]) -> str:
    """A row for each kind of measurement, in each as many values as were measured."""
    rows = []
    for kind in KINDS:
        mine = sorted((each for each in found if f"{each.what} {each.of} {each.network}" == kind), key=_asked)
        values = ", ".join(f"{_shown(each.what, each.asked)}: {_shown(each.what, each.found)}" for each in mine)
        what, of, network = kind.split()
        by = "the relay" if network == "loopback" else _WHO[what]
        rows.append((what, of, network, values, by))
    return pages.table(("condition", "of", "network", "asked: measured", "by"), (*rows, *_NONE))


def _asked(measured: Measured) -> float:
    return measured.asked


def _shown(what: str, number: float) -> str:
    if what == "loss":
        return f"{number:.1%}"
    return f"{number / 1e6:.2f} MB/s" if what == "rate" else f"{number * 1e3:.2f} ms"


@click.command()
@click.option("--seeds", default=4, show_default=True, type=click.IntRange(1), help="Times that each kind is measured.")
def main(seeds: int) -> None:
    """Bring the table of docs/network.md up to date, with what this machine measures."""
    found = [each for seed in range(seeds) for each in measured(seed, ROOT, KINDS)]
    wrong = [each for each in found if not each.holds]
    shown = {(each.what, each.of, each.network, each.asked): each for each in reversed(found)}
    fill(PAGE, "links", table(list(shown.values())))
    click.echo(f"{len(found)} measurements, of which {len(wrong)} do not hold")
    for each in wrong:
        click.echo(str(each))
    sys.exit(int(bool(wrong)))


if __name__ == "__main__":
    main()
