"""Write the tables of docs/checkpoint-sweeps.md from the sweeps that scenarios/test_checkpoint_sweeps.py judges:
`python tools/checkpoint_table.py`.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from scenarios.programs.checkpoints import crashing, cutting, damaging, formats, judging  # noqa: E402
from simulator import Cluster, Topology  # noqa: E402
from tools.pages import fill  # noqa: E402

PAGE = ROOT / "docs" / "checkpoint-sweeps.md"
NAMES = [name for name in formats.FORMATS if name not in formats.BROKEN]
CUTS, SEEDS = 30, range(10)


def _counts(outcomes: Counter[str]) -> str:
    return ", ".join(f"{words} {number}" for words, number in sorted(outcomes.items()))


def _short(outcome: str) -> str:
    return outcome.partition(":")[0]


def _crashes(cluster: Cluster, folder: Path) -> Iterator[str]:
    yield "## Killed at every file call\n"
    yield "| format | points | what can be restored at them |\n|---|---|---|"
    for number, name in enumerate(NAMES):
        points = crashing.every_point(cluster, name, folder / f"crash-{number}")
        yield f"| {name} | {len(points)} | {_counts(Counter(_short(point.outcome) for point in points))} |"


def _cuts(cluster: Cluster, folder: Path) -> Iterator[str]:
    yield f"\n## Out of space at one of {CUTS} bytes\n"
    yield "| format | the save said | what can be restored |\n|---|---|---|"
    for number, name in enumerate(NAMES):
        cuts = cutting.cuts(cluster, name, folder / f"cut-{number}", CUTS, seed=1)[:-1]
        said, found = Counter(cut.said for cut in cuts), Counter(_short(cut.outcome) for cut in cuts)
        yield f"| {name} | {_counts(said)} | {_counts(found)} |"


def _damages(cluster: Cluster, folder: Path) -> Iterator[str]:
    yield f"\n## Damaged, {len(SEEDS)} seeds for each flip, cut and zeroed block\n"
    yield "| format | file | damage | outcomes |\n|---|---|---|---|"
    for number, name in enumerate(NAMES):
        harms = damaging.sweep(cluster, name, folder / f"damage-{number}", SEEDS)
        for file, kind in sorted({(harm.file, harm.kind) for harm in harms}):
            found = Counter(_short(harm.outcome) for harm in harms if (harm.file, harm.kind) == (file, kind))
            yield f"| {name} | `{file}` | {kind} | {_counts(found)} |"


@click.command()
def main() -> None:
    """Run the sweeps and bring the tables of docs/checkpoint-sweeps.md up to date."""
    with tempfile.TemporaryDirectory() as name, Cluster(Topology(devices="cpu:2"), timeout=400) as cluster:
        folder = Path(name)
        lines = [*_crashes(cluster, folder), *_cuts(cluster, folder), *_damages(cluster, folder)]
    fill(PAGE, "sweeps", "\n".join(lines))
    click.echo(f"{PAGE.name}: {len(lines)} lines; {judging.OLD} and {judging.NEW} are right")


if __name__ == "__main__":
    main()
