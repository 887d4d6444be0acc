"""Try every public class of both Kerases under each strategy: `python tools/probes.py`."""

from __future__ import annotations

import os
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from simulator.units import parse_duration  # noqa: E402
from tools.pages import DOCS, fill  # noqa: E402
from tools.probing.inventory import inventory_of  # noqa: E402
from tools.probing.running import Probed, probes, result_of  # noqa: E402
from tools.probing.table import coverage, findings, formless, refused  # noqa: E402
from tools.running import at_once, json_file, named, only, saved, to_page, track  # noqa: E402

PAGE = DOCS / "known-issues.md"
PACKAGES = ("keras", "tf_keras")
STRATEGIES = ("mirrored-2", "mirrored-3", "central_storage-2", "multi_worker-2", "multi_worker-2x2")

EPILOG = """\b
Examples:
  python tools/probes.py --budget 10m
  python tools/probes.py --only 'layers/keras/mirrored-2/*' --json probes.json    # goes on where it was ended
\b
Exit codes: 0 all is consistent, known or documented; 1 something is not; 2 usage error.
"""


@click.command(epilog=EPILOG)
@only
@click.option("--strategy", "strategies", multiple=True, default=STRATEGIES, show_default=True, help="Only this.")
@click.option("--package", "packages", multiple=True, default=PACKAGES, show_default=True, help="Only this.")
@click.option("--seed", default=0, show_default=True, help="Draws the order, and arguments.")
@click.option("--drawn", default=1, show_default=True, type=click.IntRange(0), help="Forms of a class to draw.")
@click.option("--budget", default="20m", show_default=True, metavar="TIME", help="No probe begins after it.")
@at_once(1)
@json_file
@to_page(PAGE)
def main(
    only: str,
    strategies: tuple[str, ...],
    packages: tuple[str, ...],
    seed: int,
    drawn: int,
    budget: str,
    jobs: int,
    file: Path | None,
    page: bool,
) -> None:
    """Make every public layer, loss, metric and optimizer of a Keras, and verify what it does under each strategy.

    Some forms of classes are tried side by side; where a run is not consistent, in smaller parts. With a file of
    results the hunt goes on from there. What was not run in the budget is told.
    """
    os.environ |= {"LOCKSTEP_PROVE": "0", "LOCKSTEP_CULPRIT": "0"}
    seconds = parse_duration(budget, "budget")
    inventories = {package: inventory_of(package, drawn, seed) for package in packages}
    every = probes(inventories, strategies, seed)
    chosen = named([probe for probe in every if fnmatchcase(probe.name, only)], only)
    parts = {probe.name: probe.forms for probe in every}
    earlier = saved(file, Probed) if file is not None and file.exists() else []
    # A part whose forms are others today was not tried.
    known = [result for result in earlier if parts.get(result.name, result.forms) == result.forms]
    results = track(chosen, result_of, jobs, _said, file=file, known=known, seconds=seconds)
    missing = ["Public classes that no form makes:", "", *formless(inventories)]
    told = "\n".join([coverage(chosen, results), "", *findings(results), *refused(inventories), "", *missing])
    click.echo(told)
    if page:
        fill(PAGE, "probes", told)
    sys.exit(int(any(each.is_open for result in results for each in result.findings)))


def _said(result: Probed) -> str:
    told = [f"{finding.form} {finding.outcome}" for finding in result.findings]
    return f"{'; '.join(told) or 'consistent'} ({len(result.forms)} forms, {result.seconds:.0f} s)"


if __name__ == "__main__":
    main()
