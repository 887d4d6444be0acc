"""Search small trainings with one weakness each, steered and by chance: `python tools/hunts.py`."""

from __future__ import annotations

import functools
import sys
import time
from pathlib import Path

import click
import msgspec

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from tools.hunting.running import PROFILES, Hunted, huntings, result_of  # noqa: E402
from tools.hunting.table import section, summary, table  # noqa: E402
from tools.update_tables import filled  # noqa: E402
from tools.working import results_of  # noqa: E402

__all__ = ["main"]

PAGE = ROOT / "docs" / "search.md"

EPILOG = """\b
Examples:
  python tools/hunts.py --only 'weak_*' --seeds 10 --json hunts.json --page
  python tools/hunts.py --only 'strong_*' --profile situations --plans 200
\b
Exit codes: 0 as it should be; 1 a strong training was accused, or a weak one not found by steering; 2 usage error.
"""


@click.command(epilog=EPILOG)
@click.option("--only", default="*", show_default=True, metavar="GLOB", help="Trainings whose functions match.")
@click.option("--profile", "profiles", multiple=True, type=click.Choice(PROFILES), default=PROFILES, help="Only this.")
@click.option("--seeds", default=3, show_default=True, type=click.IntRange(1), help="How many, from 0.")
@click.option("--plans", default=60, show_default=True, type=click.IntRange(1), help="At most so many in each hunt.")
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1), help="Hunts at the same time.")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Keep results; go on with them.")
@click.option("--page", is_flag=True, help=f"Write the table into docs/{PAGE.name}.")
def main(
    only: str, profiles: tuple[str, ...], seeds: int, plans: int, jobs: int, file: Path | None, page: bool
) -> None:
    """Count the plans until each weak training of tools/hunting/programs is found, steered and by chance.

    A weak training has one line that is marked `# guilty`. A strong one survives everything, and nothing may be said
    of it.
    """
    chosen = huntings(only, seeds, profiles)
    if not chosen:
        raise click.UsageError(f"--only: no training is called like {only!r}")
    results = _saved(file) if file is not None and file.exists() else []
    done = {result.name for result in results}
    waiting, began = [hunting for hunting in chosen if hunting.name not in done], time.monotonic()
    try:
        for result in results_of(
            waiting, max(1, min(jobs, len(waiting))), functools.partial(result_of, plans_max=plans)
        ):
            results.append(result)
            said = f"found by plan {result.found}, {result.plan}" if result.found else f"not found in {result.plans}"
            click.echo(f"[{time.monotonic() - began:.0f} s] {result.name}: {said}", err=True)
            if file is not None:  # after each, so that an interruption loses nothing
                file.write_bytes(msgspec.json.format(msgspec.json.encode(results)) + b"\n")
    finally:
        if results:
            click.echo(f"{table(results)}\n\n{summary(results)}")
    if page:
        PAGE.write_text(filled(PAGE.read_text(), "hunts", section(results)))
    sys.exit(int(not all(map(_as_expected, results))))


def _as_expected(result: Hunted) -> bool:
    strong = ":strong" in result.name
    return (result.found is None) if strong else result.found is not None or PROFILES[0] not in result.name


def _saved(file: Path) -> list[Hunted]:
    """What `--json` wrote.

    Raises:
        click.UsageError: it did not.
    """
    try:
        return msgspec.json.decode(file.read_bytes(), type=list[Hunted])
    except msgspec.MsgspecError as error:
        raise click.UsageError(f"{file} is not what --json writes: {error}") from None


if __name__ == "__main__":
    main()
