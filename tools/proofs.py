"""Infer for the programs of tools/trials.py whether they are right for every batch: `python tools/proofs.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from tools.pages import DOCS, fill  # noqa: E402
from tools.proving.models import models  # noqa: E402
from tools.proving.running import Found, as_expected, found_of  # noqa: E402
from tools.proving.table import section, summary  # noqa: E402
from tools.running import at_once, json_file, named, only, saved, to_page, track  # noqa: E402
from tools.trying.cases import trials  # noqa: E402

PAGE = DOCS / "proof-tables.md"

EPILOG = """\b
Examples:
  python tools/proofs.py --only 'plain_variables:*'
  python tools/proofs.py --json proofs.json --page
\b
Exit codes: 0 as it should be; 1 something wrong was proved, or something right was refuted; 2 usage error.
"""


@click.command(epilog=EPILOG)
@only
@at_once(2)
@json_file
@click.option("--resume", is_flag=True, help="Keep what the file of --json has, and run only what it lacks.")
@to_page(PAGE)
def main(only: str, jobs: int, file: Path | None, resume: bool, page: bool) -> None:
    """Prove every program of tools/trying/catalogue.toml and those of tools/proving/programs.

    A wrong program must not be proved; it may be right under a condition that its own data does not meet. A right one
    must not be refuted.
    """
    if resume and file is None:
        raise click.UsageError("--resume continues a file: give it with --json")
    programs = (*models(only), *(each for each in trials(only) if not each.strategy.startswith("parameter_server")))
    known = saved(file, Found) if resume and file is not None and file.exists() else []
    results = track(named(programs, only), found_of, jobs, _said, file=file, known=known)
    click.echo(summary(results))
    if page:
        fill(PAGE, "proofs", section(results))
    sys.exit(int(not all(map(as_expected, results))))


def _said(found: Found) -> str:
    return found.status + ("" if as_expected(found) else "  <- not as it should be")


if __name__ == "__main__":
    main()
