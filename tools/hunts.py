"""Search small trainings with one weakness each, steered and by chance: `python tools/hunts.py`."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from tools.hunting.running import PROFILES, Hunted, huntings, result_of  # noqa: E402
from tools.hunting.table import section, summary, table  # noqa: E402
from tools.pages import DOCS, fill  # noqa: E402
from tools.running import at_once, json_file, named, only, saved, to_page, track  # noqa: E402

PAGE = DOCS / "search.md"

EPILOG = """\b
Examples:
  python tools/hunts.py --only 'weak_*' --seeds 10 --json hunts.json --page
  python tools/hunts.py --only 'strong_*' --profile situations --plans 200
\b
Exit codes: 0 as it should be; 1 a strong training was accused, or a weak one not found by steering; 2 usage error.
"""


@click.command(epilog=EPILOG)
@only
@click.option("--profile", "profiles", multiple=True, type=click.Choice(PROFILES), default=PROFILES, help="Only this.")
@click.option("--seeds", default=3, show_default=True, type=click.IntRange(1), help="How many, from 0.")
@click.option("--plans", default=60, show_default=True, type=click.IntRange(1), help="At most so many in each hunt.")
@at_once(2)
@json_file
@to_page(PAGE)
def main(
    only: str, profiles: tuple[str, ...], seeds: int, plans: int, jobs: int, file: Path | None, page: bool
) -> None:
    """Count the plans until each weak training of tools/hunting/programs is found, steered and by chance.

    A weak training has one line that is marked `# guilty`. A strong one survives everything, and nothing may be said
    of it. With a file of results hunts go on from there.
    """
    chosen = named(huntings(only, seeds, profiles), only)
    known = saved(file, Hunted) if file is not None and file.exists() else []
    results = track(chosen, functools.partial(result_of, plans_max=plans), jobs, _said, file=file, known=known)
    click.echo(f"{table(results)}\n\n{summary(results)}")
    if page:
        fill(PAGE, "hunts", section(results))
    sys.exit(int(not all(map(_as_expected, results))))


def _said(result: Hunted) -> str:
    return f"found by plan {result.found}, {result.plan}" if result.found else f"not found in {result.plans}"


def _as_expected(result: Hunted) -> bool:
    strong = ":strong" in result.name
    return (result.found is None) if strong else result.found is not None or PROFILES[0] not in result.name


if __name__ == "__main__":
    main()
